"""Addresses that statements speak of: a window row or a compressed row with everything that leads to it."""

from __future__ import annotations

from dataclasses import dataclass

from kvproof.models.index import INT64_MAX, Condition, IndexValue, negate, within
from kvproof.models.row_space import ENTRY_ORDER, ENVELOPE_ORDER, ClassRows, RowSpace
from kvproof.properties.statement import Chooser


@dataclass(frozen=True)
class WindowRow:
    """A window row.

    Attributes:
        rows: its class.
        layer: layer index within the class.
        slot: physical slot.
        position: absolute token position.
        index: index relative to the layer's base row, as a kernel computes it.
        row: plane row.
    """

    rows: ClassRows
    layer: IndexValue
    slot: IndexValue
    position: IndexValue
    index: IndexValue
    row: IndexValue

    def start(self, space: RowSpace) -> IndexValue:
        """First row of the class's windows in this slot."""
        return space.slot_span(self.slot)[0] + space.arena_rows + self.rows.entry_offset

    def in_span(self, space: RowSpace, slip: int = 0) -> Condition:
        """The row lies in its class's part of its slot's entry."""
        start = self.start(space)
        return within(self.row, start + slip, start + self.rows.entry_rows)


@dataclass(frozen=True)
class CompressRow:
    """A compressed row: row ``place`` of block ``block``; otherwise as :class:`WindowRow`."""

    rows: ClassRows
    layer: IndexValue
    block: IndexValue
    place: IndexValue
    index: IndexValue
    row: IndexValue

    def start(self, space: RowSpace) -> IndexValue:
        """First row of the class in this block's envelope."""
        return space.block_span(self.block)[0] + self.rows.envelope_offset

    def in_span(self, space: RowSpace, slip: int = 0) -> Condition:
        """The row lies in its class's part of its block's envelope."""
        start = self.start(space)
        return within(self.row, start + slip, start + self.rows.envelope_rows)


def entry_ratios(space: RowSpace) -> tuple[int, ...]:
    """Ratios of the classes present, in the order in which an entry has to hold their windows."""
    return tuple(ratio for ratio in ENTRY_ORDER if ratio in space.class_rows)


def envelope_ratios(space: RowSpace) -> tuple[int, ...]:
    """Ratios of the classes with compressed rows, in the order in which an envelope has to hold them."""
    return tuple(ratio for ratio in ENVELOPE_ORDER if ratio in space.class_rows)


def choose_position(space: RowSpace, choose: Chooser, name: str) -> IndexValue:
    """Any token position; an enumeration goes through the ring once and a little further."""
    return choose.integer(name, 0, INT64_MAX, few=space.ring_slots + 1)


def choose_slot(space: RowSpace, choose: Chooser, name: str) -> IndexValue:
    """The physical slot of any pool group."""
    return space.physical_slot(choose.integer(name, 0, space.num_slots - 1))


def choose_window(space: RowSpace, choose: Chooser, ratio: int, tag: str = "") -> WindowRow:
    """Any window row of a class."""
    rows = space.rows_of(ratio)
    layer = choose.integer(f"layer{tag}", 0, rows.num_layers - 1)
    slot = choose_slot(space, choose, f"group{tag}")
    position = choose_position(space, choose, f"position{tag}")
    index = space.window_params(ratio).index(slot, position)
    return WindowRow(rows, layer, slot, position, index, rows.base_row(layer) + index)


def choose_compress(space: RowSpace, choose: Chooser, ratio: int, tag: str = "") -> CompressRow:
    """Any compressed row of a class."""
    rows = space.rows_of(ratio)
    layer = choose.integer(f"layer{tag}", 0, rows.num_layers - 1)
    block = choose.integer(f"block{tag}", 0, space.num_blocks - 1)
    place = choose.integer(f"row{tag}", 0, rows.block_rows - 1)
    index = space.compress_row(ratio, block, place)
    return CompressRow(rows, layer, block, place, index, rows.base_row(layer) + index)


def pick_pair(choose: Chooser, ratios: tuple[int, ...]) -> tuple[int, int]:
    """Two classes in the order in which they are given, the same one included."""
    first = choose.pick("class a", ratios)
    return first, choose.pick("class b", ratios[ratios.index(first) :])


def differ_by_at_most(a: IndexValue, b: IndexValue, slip: int) -> Condition:
    """``a == b``; in a twin, ``a`` and ``b`` are at most ``slip`` apart."""
    return within(a - b, -slip, slip + 1)


def not_both(a: Condition, b: Condition) -> Condition:
    """At most one of the two holds."""
    return negate(a & b)
