"""What the two-plane scatter does: the one-plane scatter, with the same row number in both planes."""

from __future__ import annotations

from kvproof.kernels.row_scatter.spec import scattered_rows, written

__all__ = ["scattered_rows", "written"]
