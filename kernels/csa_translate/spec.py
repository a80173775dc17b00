"""What the CSA translate writes: entry by entry, on ints, arrays and symbolic values."""

from __future__ import annotations

from typing import Any

from kvproof.kernels.index_spec import SENTINEL, clamped, window_count
from kvproof.models.index import (
    INT32_MAX,
    Condition,
    IndexValue,
    maximum,
    minimum,
    select,
    within,
)
from kvproof.models.row_space import CSA_RATIO


def complete(entry: IndexValue, pos: IndexValue) -> Condition:
    """Whether a token at ``pos`` may see an entry: all of the group's positions are at or before its own."""
    return (entry >= 0) & (entry * CSA_RATIO + CSA_RATIO - 1 <= pos)


def head_length(
    start: IndexValue,
    end: IndexValue,
    pos: IndexValue,
    window_size: IndexValue,
    skip: IndexValue,
    topk: IndexValue,
) -> IndexValue:
    """Entries at the head of a slice ``start..end-1``: what the window leaves, at most ``topk``; or below 0."""
    tail = select(window_size > 0, window_count(pos, window_size), skip)
    return minimum(end - start - maximum(tail, 0), topk)


def entry_row(
    block_tables: Any,
    sequence: IndexValue,
    entry: IndexValue,
    pos: IndexValue,
    envelope_rows: IndexValue,
    capacity: IndexValue,
    columns: IndexValue,
) -> IndexValue:
    """Pool row of a sequence's entry; -1 unless it is complete, and its block has an id."""
    known = complete(entry, pos) & (entry < columns * capacity)
    block = block_tables[sequence, clamped(entry // capacity, columns)]
    row = block * envelope_rows + entry % capacity
    return select(known & (block >= 0) & within(row, 0, INT32_MAX + 1), row, SENTINEL)
