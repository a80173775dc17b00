"""Contracts of the packed cache's kernels, which this project has none of its own for, and the cases of each."""

from kvproof.properties.pages.cases import PAGE_PROPERTIES
from kvproof.properties.pages.contracts import PAGE_CONTRACTS

__all__ = ["PAGE_CONTRACTS", "PAGE_PROPERTIES"]
