"""What the HCA head is, and the same on the host for a whole batch of entries."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kvproof.kernels.index_spec import SENTINEL, window_count
from kvproof.models.errors import LayoutError
from kvproof.models.index import INT32_MAX, IndexValue, maximum


def head_cells(start: IndexValue, end: IndexValue, pos: IndexValue, win: IndexValue) -> IndexValue:
    """Cells of a slice before its window part."""
    return end - start - maximum(window_count(pos, win), 0)


def hca_compress_paged_offsets(
    entry_idx: npt.ArrayLike,
    bid_per_entry: npt.ArrayLike,
    block_tables_np: npt.ArrayLike,
    envelope_rows: int,
    hca_rows_per_block: int,
) -> npt.NDArray[np.int32]:
    """Pool row of each (sequence, HCA group) pair, on the host.

    Args:
        entry_idx: groups within their sequences.
        bid_per_entry: their sequences, as many.
        block_tables_np: [bs, columns] physical blocks.
        envelope_rows: rows of an envelope.
        hca_rows_per_block: groups of a block, ``block_size // 128``.

    Returns:
        int32 rows; -1 for a negative group, one past the table, an unknown sequence, or a negative block.

    Raises:
        LayoutError: arrays that do not fit together, or rows past 32 bits.
    """
    entries, sequences = np.asarray(entry_idx, np.int64), np.asarray(bid_per_entry, np.int64)
    tables: npt.NDArray[Any] = np.asarray(block_tables_np, np.int64)
    if entries.shape != sequences.shape or tables.ndim != 2:
        raise LayoutError(
            f"entry_idx {entries.shape} and bid_per_entry {sequences.shape} must have one shape, and "
            f"block_tables_np two dimensions, got {tables.shape}"
        )
    if hca_rows_per_block < 1 or envelope_rows < hca_rows_per_block:
        raise LayoutError(
            f"hca_rows_per_block must be from 1 to envelope_rows ({envelope_rows}), got {hca_rows_per_block}"
        )
    columns = entries // hca_rows_per_block
    known = (entries >= 0) & (columns < tables.shape[1]) & (sequences >= 0) & (sequences < tables.shape[0])
    blocks = np.full(entries.shape, SENTINEL, np.int64)
    blocks[known] = tables[sequences[known], columns[known]]
    rows = np.where(blocks >= 0, blocks * envelope_rows + entries % hca_rows_per_block, SENTINEL)
    if rows.size and rows.max() > INT32_MAX:
        raise LayoutError(f"block_tables_np gives row {rows.max()}; indices are int32")
    return rows.astype(np.int32)
