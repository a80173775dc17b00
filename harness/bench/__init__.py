"""Timing kernels at production sizes."""
