"""What an index builder writes for one position or one entry, on ints, arrays and symbolic values.

An index is a row relative to the layer's base, or -1 where there is no such row: readers skip negative
indices. So an id out of range becomes -1 here, never a row that belongs to somebody.
"""

from __future__ import annotations

from kvproof.models.index import INT32_MAX, Condition, IndexValue, maximum, minimum, select, within
from kvproof.models.row_space import UnifiedPoolGeometry

SENTINEL = -1


def window_index(geometry: UnifiedPoolGeometry, ratio: int, slot: IndexValue, pos: IndexValue) -> IndexValue:
    """Row of position ``pos`` in physical slot ``slot``; -1 for a negative position, or a slot the plane has not.

    Any slot of the plane counts, in use or not: the boundary between blocks and slots moves under a captured
    launch, so the number of slots in use must not be part of one.
    """
    known = within(slot, geometry.slot_origin, geometry.slot_positions) & (pos >= 0)
    row = geometry.window_params(ratio).index(select(known, slot, geometry.slot_origin), maximum(pos, 0))
    # A slot below those in use may lie under the view's first row.
    return select(known, maximum(row, SENTINEL), SENTINEL)


def window_count(pos: IndexValue, win: IndexValue) -> IndexValue:
    """Window positions that a token at ``pos`` sees, its own among them; 0 or less for a negative position."""
    return minimum(pos, win - 1) + 1


def whole_blocks(geometry: UnifiedPoolGeometry) -> IndexValue:
    """Envelopes that fit the plane: block ids from here on are no blocks. Independent of the boundary."""
    return geometry.plane_rows // maximum(geometry.envelope_rows, 1)


def compress_index(
    envelope_rows: IndexValue, blocks: IndexValue, block: IndexValue, row: IndexValue
) -> IndexValue:
    """Row ``row`` of block ``block``; -1 for a block outside ``0 <= block < blocks`` or past 32 bits."""
    at = block * envelope_rows + row
    return select(within(block, 0, blocks) & (at <= INT32_MAX), at, SENTINEL)


def clamped(index: IndexValue, count: IndexValue) -> IndexValue:
    """An index that can be looked up whatever it is; what is found counts only where the index was in range."""
    return maximum(minimum(index, count - 1), 0)


def serves(geometry: UnifiedPoolGeometry, ratio: int, *buffers: object) -> bool:
    """Whether a launch serves a class: the pool has layers of it, and the caller passed its buffers."""
    return ratio in geometry.classes and all(buffer is not None for buffer in buffers)


def live_sequence(sequence: IndexValue, count: IndexValue) -> Condition:
    """Whether a token's batch id names a sequence; -1 marks a padded token."""
    return within(sequence, 0, count)
