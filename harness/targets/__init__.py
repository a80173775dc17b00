"""Whose kernels: this project's own, or those of a checkout or package that a profile describes."""
