"""Compiled kernels: from a ``@triton.jit`` function to its TTIR, read into a small SSA form and executed."""
