"""Which positions and groups a prefill token reads, and from where; on ints, arrays and symbolic values.

A token at ``pos`` of a chunk that starts at ``chunk_start`` sees the window positions pos-win+1..pos. Those of
its own chunk come from this forward's rows, since the chunk's tail is written to the ring only afterwards; those
before it from the ring.
"""

from __future__ import annotations

from kvproof.kernels.index_spec import SENTINEL, clamped, compress_index, whole_blocks
from kvproof.models.index import IndexValue, maximum, minimum, select, within
from kvproof.models.row_space import HCA_RATIO, UnifiedPoolGeometry


def extend_low(pos: IndexValue, chunk_start: IndexValue, win: IndexValue) -> IndexValue:
    """First in-chunk position that the token sees."""
    return maximum(pos - (win - 1), chunk_start)


def extend_row(pos: IndexValue, chunk_start: IndexValue, first_row: IndexValue, rows: IndexValue) -> IndexValue:
    """Row of an in-chunk position in this forward's kv; -1 outside it.

    Args:
        first_row: row of the sequence's first token.
        rows: rows of this forward's kv.
    """
    row = first_row + (pos - chunk_start)
    return select(within(row, 0, rows), row, SENTINEL)


def prefix_low(pos: IndexValue, win: IndexValue) -> IndexValue:
    """First window position that the token sees."""
    return maximum(pos - (win - 1), 0)


def prefix_count(pos: IndexValue, chunk_start: IndexValue, win: IndexValue) -> IndexValue:
    """Window positions before the chunk that the token sees; none past its own, wherever the chunk starts."""
    return maximum(minimum(chunk_start - 1, pos) + 1 - prefix_low(pos, win), 0)


def visible_groups(pos: IndexValue, committed: IndexValue) -> IndexValue:
    """Complete HCA groups at a token: min((pos + 1) div 128, committed), at least 0."""
    at = maximum(pos, 0)
    # (at + 1) div 128 without the sum, which a position at the end of its type would wrap.
    closed = at // HCA_RATIO + (at % HCA_RATIO + 1) // HCA_RATIO
    return maximum(minimum(select(pos >= 0, closed, 0), committed), 0)


def group_row(
    geometry: UnifiedPoolGeometry,
    tables: IndexValue,
    sequence: IndexValue,
    group: IndexValue,
    columns: IndexValue,
) -> IndexValue:
    """Pool row of a sequence's HCA group; -1 where its block has no id in the plane."""
    per_block = geometry.block_size // HCA_RATIO
    column = group // per_block
    block = select(column < columns, tables[sequence, clamped(column, columns)], SENTINEL)
    return compress_index(geometry.envelope_rows, whole_blocks(geometry), block, group % per_block)
