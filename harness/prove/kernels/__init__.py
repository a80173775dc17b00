"""Proofs about compiled kernels: accesses in bounds, no wrap, one writer a cell, the contract's addresses."""
