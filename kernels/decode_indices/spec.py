"""What the decode index build writes, from positions: token by token in plain ints.

The contract states the same in index values; this is the form to read, and what joint checks compare with.
"""

from __future__ import annotations

from typing import Any

from kvproof.kernels.index_spec import SENTINEL
from kvproof.models.row_space import UnifiedPoolGeometry


def window_rows(geometry: UnifiedPoolGeometry, ratio: int, slot: int, pos: int, win: int) -> list[int]:
    """Rows of the window of a token at ``pos``, oldest first; its own row is the last."""
    if pos < 0:
        return []
    positions = range(max(pos - win + 1, 0), pos + 1)
    if not geometry.slot_origin <= slot < geometry.slot_positions:
        return [SENTINEL] * len(positions)
    params = geometry.window_params(ratio)
    return [max(params.index(slot, p), SENTINEL) for p in positions]


def decode_cells(
    geometry: UnifiedPoolGeometry, ratio: int, slots: Any, batch_ids: Any, positions: Any, indptr: Any, win: int
) -> dict[int, int]:
    """Cell of one class's index buffer -> row, for every cell that one launch writes."""
    cells: dict[int, int] = {}
    for t, sequence in enumerate(batch_ids):
        if not 0 <= sequence < len(slots):
            continue
        rows = window_rows(geometry, ratio, int(slots[sequence]), int(positions[t]), win)
        for back, row in enumerate(reversed(rows), start=1):
            cell = int(indptr[t + 1]) - back
            if cell >= max(int(indptr[t]), 0):
                cells[cell] = row
    return cells
