"""Measurements over time: what a run measured, where runs are kept, and how they are read as series."""
