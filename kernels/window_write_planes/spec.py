"""What the two-plane write does: the one-plane write, with the same row number in both planes."""

from __future__ import annotations

from kvproof.kernels.window_write.spec import destination, first_written, written_rows

__all__ = ["destination", "first_written", "written_rows"]
