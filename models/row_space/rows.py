"""The row space of one plane in scalars: how many rows each thing takes and where it starts.

Classes are given by their layer *counts* and strides, so that one object describes a pool with concrete
sizes as well as one whose every size is a symbolic integer. :class:`~kvproof.models.row_space.UnifiedPoolGeometry`
adds the layer ids of a real model on top.

Rows of a plane, from 0 to ``plane_rows``::

    [ num_blocks envelopes | gap | num_slots slots | rest under one slot ]

An envelope holds one block of compressed rows for all layers; a slot holds a request's compressor state
(the arena) and then its windows (the entry). Slot ``j`` starts at row ``(j - slot_origin) * slot_rows``
wherever the boundary between blocks and slots lies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvproof.models.errors import AbsentClassError
from kvproof.models.index import IndexValue, as_index_value, cdiv, require, round_up, within
from kvproof.models.row_space.ratios import CLASS_NAMES, DENSE_RATIO, ENTRY_ORDER, ENVELOPE_ORDER
from kvproof.models.row_space.ring import WindowParams, entry_rows_for, ring_offset_for


@dataclass(frozen=True)
class ClassRows:
    """One compress class's rows inside an envelope and inside an entry.

    Attributes:
        ratio: compress ratio of the class.
        num_layers: layers of the class, at least 1.
        block_rows: compressed rows of one block in one layer; 0 for a dense class.
        ring_stride: rows between two layers' windows: ``block_rows``, or ``ring_slots`` for a dense class.
        ring_slots: ring positions of a window.
        envelope_offset: first row of the class in an envelope; 0 for a dense class, which has none there.
        entry_offset: first row of the class in an entry.
    """

    ratio: int
    num_layers: IndexValue
    block_rows: IndexValue
    ring_stride: IndexValue
    ring_slots: IndexValue
    envelope_offset: IndexValue
    entry_offset: IndexValue

    @property
    def envelope_rows(self) -> IndexValue:
        """Rows of the class in one envelope, all layers."""
        return self.num_layers * self.block_rows

    @property
    def entry_rows(self) -> IndexValue:
        """Rows of the class's windows in one entry, all layers."""
        return entry_rows_for(self.num_layers, self.ring_stride, self.ring_slots)

    def ring_offset(self, ring_pos: IndexValue) -> IndexValue:
        """The part of a window row that all layers share."""
        return ring_offset_for(self.num_layers, self.ring_stride, ring_pos)

    def ring_row(self, layer_index: IndexValue, ring_pos: IndexValue) -> IndexValue:
        """Row of a layer's ring position relative to the class's part of an entry."""
        return layer_index * self.ring_stride + self.ring_offset(ring_pos)

    @property
    def anchor(self) -> IndexValue:
        """Base row of the class's first layer: its part of envelope 0, or row 0 for a dense class."""
        return 0 if self.ratio == DENSE_RATIO else self.envelope_offset

    def base_row(self, layer_index: IndexValue) -> IndexValue:
        """Row where a layer's view starts. Both indices of the layer count from here."""
        return self.anchor + layer_index * self.ring_stride


def stack_classes(
    counts: Mapping[int, IndexValue], block_rows: Mapping[int, IndexValue], ring_slots: IndexValue
) -> tuple[dict[int, ClassRows], IndexValue, IndexValue]:
    """Place each class in the envelope and in the entry.

    Args:
        counts: layers of each class that has any.
        block_rows: compressed rows of a block in one layer, of each class with compressed rows.
        ring_slots: ring positions of a window.

    Returns:
        (classes in entry order, envelope rows, entry rows).
    """
    envelope_offsets: dict[int, IndexValue] = {}
    envelope_rows: IndexValue = 0
    for ratio in ENVELOPE_ORDER:
        if ratio in counts:
            envelope_offsets[ratio] = envelope_rows
            envelope_rows = envelope_rows + counts[ratio] * block_rows[ratio]

    classes: dict[int, ClassRows] = {}
    entry_rows: IndexValue = 0
    for ratio in ENTRY_ORDER:
        if ratio in counts:
            dense = ratio == DENSE_RATIO
            placed = ClassRows(
                ratio=ratio,
                num_layers=counts[ratio],
                block_rows=0 if dense else block_rows[ratio],
                ring_stride=ring_slots if dense else block_rows[ratio],
                ring_slots=ring_slots,
                envelope_offset=envelope_offsets.get(ratio, 0),
                entry_offset=entry_rows,
            )
            classes[ratio] = placed
            entry_rows = entry_rows + placed.entry_rows
    return classes, envelope_rows, entry_rows


class RowSpace:
    """The rows of one plane and every address formula over them, by class and layer index.

    Args:
        counts: layers of each class that has any, at least 1 each.
        block_rows: compressed rows of one block in one layer, of each class with compressed rows.
        num_blocks, num_slots: envelopes and slots in use.
        ring_slots: ring positions of a window (R).
        plane_rows: rows of the plane; by default just what the counts need.
        arena_rows: rows of compressor state at the front of a slot.
        slot_positions: number the slots as a plane with this many positions does (two planes numbered
            alike share their indices); by default as many as this plane holds.
        slot_align_rows: a slot's rows are rounded up to a multiple of this.

    Raises:
        LayoutError: no rows at all, a plane too small, or slots that a layer's view cannot reach.
    """

    def __init__(
        self,
        counts: Mapping[int, IndexValue],
        block_rows: Mapping[int, IndexValue],
        num_blocks: IndexValue,
        num_slots: IndexValue,
        ring_slots: IndexValue,
        plane_rows: IndexValue | None = None,
        arena_rows: IndexValue = 0,
        slot_positions: IndexValue | None = None,
        slot_align_rows: IndexValue = 2,
    ) -> None:
        self._counts, self._block_rows = counts, block_rows
        self._numbering = slot_positions
        self.num_blocks = num_blocks
        self.num_slots = num_slots
        self.ring_slots = ring_slots
        self.arena_rows = arena_rows
        self.slot_align_rows = slot_align_rows
        self.class_rows, self.envelope_rows, self.entry_rows = stack_classes(counts, block_rows, ring_slots)
        self.slot_rows = round_up(arena_rows + self.entry_rows, slot_align_rows)
        require(
            self.slot_rows >= 1,
            "ratios and arena_rows leave a slot of {rows} rows; at least one layer must be present, "
            "or arena_rows be positive",
            rows=self.slot_rows,
        )
        taken = num_blocks * self.envelope_rows
        if plane_rows is None:
            plane_rows = (num_slots + cdiv(taken, self.slot_rows)) * self.slot_rows
        self.plane_rows: IndexValue = plane_rows
        self.held_slots = plane_rows // self.slot_rows
        require(
            (num_slots <= self.held_slots) & ((self.held_slots - num_slots) * self.slot_rows >= taken),
            "plane_rows is {plane_rows}, which cannot hold {num_blocks} blocks ({envelope_rows} rows each) "
            "plus {num_slots} slots ({slot_rows} rows each)",
            plane_rows=plane_rows,
            num_blocks=num_blocks,
            envelope_rows=self.envelope_rows,
            num_slots=num_slots,
            slot_rows=self.slot_rows,
        )
        self.slot_positions = self.held_slots if slot_positions is None else slot_positions
        self.slot_origin = self.slot_positions - self.held_slots
        require(
            self.slot_origin >= 0,
            "slot_positions is {slot_positions}, fewer than the {held} slots that a plane of {plane_rows} "
            "rows holds",
            slot_positions=self.slot_positions,
            held=self.held_slots,
            plane_rows=plane_rows,
        )
        self._require_reach()

    def _require_reach(self) -> None:
        """A layer's view starts at its base row; a window row below it would be a negative index.

        Only a plane without room for one envelope under its lowest slot, a ring shorter than a stride and
        a small arena together can do that, and no kernel could address such a row.
        """
        lowest = (self.held_slots - self.num_slots) * self.slot_rows + self.arena_rows
        for rows in self.class_rows.values():
            first = lowest + rows.entry_offset
            require(
                (self.num_slots == 0) | (first >= rows.anchor),
                "num_slots {num_slots} puts the first " + CLASS_NAMES[rows.ratio] + " window at row {first}, "
                "below row {anchor} where the layer's view starts; leave a gap, or use fewer slots",
                num_slots=self.num_slots,
                first=first,
                anchor=rows.anchor,
            )

    def with_capacity(
        self,
        num_blocks: IndexValue,
        num_slots: IndexValue,
        plane_rows: IndexValue | None = None,
        slot_positions: IndexValue | None = None,
    ) -> RowSpace:
        """The same layout at another split.

        A plane that was numbered by ``slot_positions`` keeps that numbering unless another is given; dropping it
        would move every window row of a plane that shares its indices with another.
        """
        return RowSpace(
            self._counts,
            self._block_rows,
            num_blocks,
            num_slots,
            self.ring_slots,
            plane_rows,
            self.arena_rows,
            slot_positions=self._numbering if slot_positions is None else slot_positions,
            slot_align_rows=self.slot_align_rows,
        )

    def rows_of(self, ratio: int) -> ClassRows:
        """The class of a compress ratio.

        Raises:
            AbsentClassError: no layer of this layout has that ratio.
        """
        rows = self.class_rows.get(ratio)
        if rows is None:
            present = ", ".join(f"{r} ({CLASS_NAMES[r]})" for r in self.class_rows)
            raise AbsentClassError(
                f"ratio {ratio!r} has no layer in this layout; classes present: {present or 'none'}"
            )
        return rows

    def window_params(self, ratio: int) -> WindowParams:
        """The window-row formula of one class, as scalars for a kernel. Does not depend on the boundary.

        Raises:
            AbsentClassError: no layer of this layout has that ratio.
        """
        rows = self.rows_of(ratio)
        return WindowParams(
            ring_start=self.arena_rows + rows.entry_offset - rows.anchor - self.slot_origin * self.slot_rows,
            slot_rows=self.slot_rows,
            ring_slots=self.ring_slots,
            ring_stride=rows.ring_stride,
            run_rows=rows.num_layers * rows.ring_stride,
        )

    def field_window_params(self, field_offset_rows: int, rows_per_window_row: int) -> WindowParams:
        """The formula of a window that is a state field, in rows of a view retyped to the window's width.

        Args:
            field_offset_rows: plane rows from the slot's start to the field.
            rows_per_window_row: plane rows that one window row takes, at least 1.

        Raises:
            LayoutError: the slot or the offset does not divide by it, or the ring leaves the arena.
        """
        field_offset_rows = as_index_value("field_offset_rows", field_offset_rows)
        rows_per_window_row = as_index_value("rows_per_window_row", rows_per_window_row)
        require(
            rows_per_window_row >= 1,
            "rows_per_window_row must be at least 1, got {rows}",
            rows=rows_per_window_row,
        )
        require(field_offset_rows >= 0, "field offset {offset} must not be negative", offset=field_offset_rows)
        for name, rows in (("slot", self.slot_rows), ("field offset", field_offset_rows)):
            require(
                rows % rows_per_window_row == 0,
                name + " of {rows} rows does not divide by the {width} plane rows of one window row",
                rows=rows,
                width=rows_per_window_row,
            )
        stop = field_offset_rows + self.ring_slots * rows_per_window_row
        require(
            stop <= self.arena_rows,
            "field offset {offset} puts the ring's end at row {stop}, past arena_rows {arena}",
            offset=field_offset_rows,
            stop=stop,
            arena=self.arena_rows,
        )
        slot_rows = self.slot_rows // rows_per_window_row
        return WindowParams(
            ring_start=field_offset_rows // rows_per_window_row - self.slot_origin * slot_rows,
            slot_rows=slot_rows,
            ring_slots=self.ring_slots,
            # A field is not interleaved with anything: the ring is one run.
            ring_stride=self.ring_slots,
            run_rows=self.ring_slots,
        )

    def compress_row(self, ratio: int, block: IndexValue, row: IndexValue) -> IndexValue:
        """Index of a compressed row of a class, relative to the layer's base row; the same for all its layers.

        Raises:
            LayoutError: a dense class, a row outside the block, a negative block.
        """
        rows = self.rows_of(ratio)
        require(
            rows.ratio != DENSE_RATIO,
            "ratio {ratio}: a dense class keeps no compressed KV",
            ratio=ratio,
        )
        block, row = as_index_value("block", block), as_index_value("row", row)
        require(
            within(row, 0, rows.block_rows),
            "row {row} outside 0..{stop} for ratio {ratio}",
            row=row,
            stop=rows.block_rows,
            ratio=ratio,
        )
        require(block >= 0, "block {block} must not be negative", block=block)
        return block * self.envelope_rows + row

    def window_row(self, ratio: int, slot: IndexValue, ring_pos: IndexValue) -> IndexValue:
        """Index of a window row of a class, relative to the layer's base row; the same for all its layers.

        The formula knows no counts (that is what lets the boundary move), so a slot past the plane's end
        gives a row past the plane's end; :meth:`slot_span` refuses such a slot.

        Raises:
            LayoutError: a ring position outside the ring, or a slot below the plane's first.
        """
        params = self.window_params(ratio)
        slot, ring_pos = as_index_value("slot", slot), as_index_value("ring_pos", ring_pos)
        require(
            within(ring_pos, 0, self.ring_slots),
            "ring position {ring_pos} outside 0..{stop}",
            ring_pos=ring_pos,
            stop=self.ring_slots,
        )
        require(
            slot >= self.slot_origin,
            "slot {slot} below {origin}, the plane's first position",
            slot=slot,
            origin=self.slot_origin,
        )
        return params.index(slot, ring_pos)

    def physical_slot(self, group: IndexValue) -> IndexValue:
        """Slot position of a pool group. Group 0 is the topmost; each further group is one position down.

        Raises:
            LayoutError: a group outside 0..num_slots.
        """
        group = as_index_value("group", group)
        require(
            within(group, 0, self.num_slots),
            "group {group} outside 0..{stop}",
            group=group,
            stop=self.num_slots,
        )
        return self.slot_positions - 1 - group

    def block_span(self, block: IndexValue) -> tuple[IndexValue, IndexValue]:
        """``[start, stop)`` plane rows of a block's envelope.

        Raises:
            LayoutError: a block outside 0..num_blocks.
        """
        block = as_index_value("block", block)
        require(
            within(block, 0, self.num_blocks),
            "block {block} outside 0..{stop}",
            block=block,
            stop=self.num_blocks,
        )
        start = block * self.envelope_rows
        return start, start + self.envelope_rows

    def slot_span(self, slot: IndexValue) -> tuple[IndexValue, IndexValue]:
        """``[start, stop)`` plane rows of a slot, state and windows.

        Raises:
            LayoutError: a slot that is not a position of this plane.
        """
        slot = as_index_value("slot", slot)
        require(
            within(slot, self.slot_origin, self.slot_positions),
            "slot {slot} outside {origin}..{stop}",
            slot=slot,
            origin=self.slot_origin,
            stop=self.slot_positions,
        )
        start = (slot - self.slot_origin) * self.slot_rows
        return start, start + self.slot_rows

    def arena_span(self, slot: IndexValue) -> tuple[IndexValue, IndexValue]:
        """``[start, stop)`` plane rows of a slot's compressor state.

        Raises:
            LayoutError: a slot that is not a position of this plane.
        """
        start, _ = self.slot_span(slot)
        return start, start + self.arena_rows
