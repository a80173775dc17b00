"""The allocator's contract, in index values: what the pool promises and what the provers hold it to.

A plane of ``plane_rows`` rows holds blocks from its low end and slots from its high end::

    block b is rows [b * E, (b + 1) * E)          slot j is rows [(j - origin) * S, (j - origin + 1) * S)

Both formulas are free of how many blocks and slots there are, so moving the boundary between them moves no row.
What must hold is only that the highest block ends where the lowest slot starts, or before: :func:`apart`.
"""

from __future__ import annotations

from kvproof.models.index import Condition, IndexValue, cdiv, maximum
from kvproof.models.row_space import RowSpace


def lowest_slot_row(space: RowSpace, slots: IndexValue) -> IndexValue:
    """First plane row of the lowest of ``slots`` slots."""
    return (space.held_slots - slots) * space.slot_rows


def apart(space: RowSpace, blocks: IndexValue, slots: IndexValue) -> Condition:
    """Whether so many blocks and so many slots never meet: what admission and every move of the boundary keep."""
    held = (blocks >= 0) & (slots >= 0) & (slots <= space.held_slots)
    return held & (blocks * space.envelope_rows <= lowest_slot_row(space, slots))


def most_blocks(space: RowSpace, slots: IndexValue) -> IndexValue:
    """The most blocks beside ``slots`` slots; one more would meet them. The layout must have compressed rows."""
    return maximum(lowest_slot_row(space, slots), 0) // space.envelope_rows


def blocks_of(tokens: IndexValue, block_size: IndexValue) -> IndexValue:
    """Blocks of a request of so many tokens: rounded up, for the rows of an open block are written too."""
    return cdiv(tokens, block_size)
