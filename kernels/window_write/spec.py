"""What the window write does, from positions: which tokens it writes and where each one goes."""

from __future__ import annotations

from typing import Any

from kvproof.kernels.row_index.spec import window_row_or_sentinel
from kvproof.models.index import IndexValue, maximum, minimum
from kvproof.models.row_space import WindowParams


def first_written(start: IndexValue, stop: IndexValue, write_per_batch: IndexValue) -> IndexValue:
    """First token written of a sequence whose tokens are ``start..stop-1``: only the last ``write_per_batch``
    are. A chunk longer than the ring holds several positions of one ring row; the last of them must win, so
    only tokens that share no ring row are written at all.
    """
    return maximum(start, stop - minimum(stop - start, write_per_batch))


def destination(window: WindowParams, slot: IndexValue, pos: IndexValue) -> IndexValue:
    """Row that position ``pos`` of the request in physical slot ``slot`` is written to; -1 for a sentinel."""
    return window_row_or_sentinel(window, slot, pos)


def written_rows(
    positions: Any, cu_seqlens_q: Any, slots: Any, rows: int, window: WindowParams, write_per_batch: int
) -> dict[int, int]:
    """Pool row -> token, for every row that one launch writes; token by token, in plain ints.

    Args:
        positions, cu_seqlens_q, slots: sequences of ints.
        rows: rows of the pool's view; a destination outside is dropped.
        window, write_per_batch: as the kernel takes them.
    """
    owner: dict[int, int] = {}
    for sequence, slot in enumerate(slots):
        start, stop = int(cu_seqlens_q[sequence]), int(cu_seqlens_q[sequence + 1])
        for token in range(max(start, stop - write_per_batch), stop):
            pos = int(positions[token])
            if slot < 0 or pos < 0:
                continue
            run, in_run = divmod(pos % window.ring_slots, window.ring_stride)
            row = int(slot) * window.slot_rows + window.ring_start + run * window.run_rows + in_run
            if 0 <= row < rows:
                owner[row] = token
    return owner
