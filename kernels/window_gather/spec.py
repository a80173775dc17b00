"""Which row a cell of the gathered window is, on ints, arrays and symbolic values."""

from __future__ import annotations

from kvproof.kernels.row_index.spec import window_row_or_sentinel
from kvproof.models.index import IndexValue, select, within
from kvproof.models.row_space import WindowParams


def cell_position(anchor: IndexValue, cell: IndexValue, draft_window: IndexValue) -> IndexValue:
    """Position in cell ``cell`` of the window that ends at ``anchor``; negative before the request's first."""
    return anchor - (draft_window - 1 - cell)


def cell_row(window: WindowParams, slot: IndexValue, pos: IndexValue, rows: IndexValue) -> IndexValue:
    """Pool row of a position; -1 (which is gathered as zeros) for a sentinel and outside the pool."""
    row = window_row_or_sentinel(window, slot, pos)
    return select(within(row, 0, rows), row, -1)
