"""Planted faults: copies of parts of kvproof with one place changed, to measure what the checks find."""

from kvproof.harness.mutate.patched import Patch, PatchError, patched

__all__ = ["Patch", "PatchError", "patched"]
