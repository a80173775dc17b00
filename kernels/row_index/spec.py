"""What the row formulas give, on ints, arrays and symbolic values; sentinels included."""

from __future__ import annotations

from kvproof.models.index import IndexValue, maximum, select
from kvproof.models.row_space import WindowParams


def window_row_or_sentinel(window: WindowParams, slot: IndexValue, pos: IndexValue) -> IndexValue:
    """Row of position ``pos`` in physical slot ``slot`` relative to the layer's base; -1 for a sentinel."""
    # The formula refuses a sentinel; both sides of a select are evaluated.
    row = window.index(maximum(slot, 0), maximum(pos, 0))
    return select((slot >= 0) & (pos >= 0), row, -1)


def compress_row_or_sentinel(envelope_rows: IndexValue, block: IndexValue, row: IndexValue) -> IndexValue:
    """Row of compressed row ``row`` of block ``block`` relative to the layer's base; -1 for a sentinel."""
    return select((block >= 0) & (row >= 0), block * envelope_rows + row, -1)


def row_offset(row: IndexValue, row_stride: IndexValue) -> IndexValue:
    """Elements from a view's first to row ``row``'s first."""
    return row * row_stride
