"""Whole forwards of a schedule, with the kernels on a device: who writes what, and what is read."""
