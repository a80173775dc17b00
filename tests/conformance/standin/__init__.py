"""A small production package: the pool's kernels with the real ABI, right and wrong.

Every function takes ``fault``, empty in the right ones. A faulty variant is the function with one named
fault, each a kind that production pools have had.
"""
