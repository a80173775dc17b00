"""Hypothesis strategies: layouts, batches, and the cases of each kernel."""
