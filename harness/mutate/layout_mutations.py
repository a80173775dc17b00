"""The planted layout faults, as data: one row each."""

from __future__ import annotations

from collections.abc import Mapping

from kvproof.harness.mutate.layouts import LayoutMutation
from kvproof.harness.mutate.patched import Patch

INDEX = "models.index"
RING = "models.row_space.ring"
ROWS = "models.row_space.rows"
GEOMETRY = "models.row_space.geometry"
CONFIG = "models.deepseek_v4.config"
STATE = "models.deepseek_v4.state"


def _one(name: str, words: str, module: str, old: str, new: str) -> LayoutMutation:
    return LayoutMutation(name, words, (Patch(module, old, new),))


FAULTS: Mapping[str, LayoutMutation] = {
    fault.name: fault
    for fault in [
        _one(
            "ring modulus",
            "the ring is taken modulo W where W + k positions are live (k = 1)",
            RING,
            "ring_pos = pos % self.ring_slots",
            "ring_pos = pos % max(self.ring_slots - 1, 1)",
        ),
        _one(
            "run height",
            "a run of all layers is one layer short",
            ROWS,
            "run_rows=rows.num_layers * rows.ring_stride",
            "run_rows=max(rows.num_layers - 1, 1) * rows.ring_stride",
        ),
        _one(
            "entry order",
            "the entry is placed in the envelope's order, in which dense windows have no part",
            ROWS,
            "                entry_offset=entry_rows,",
            "                entry_offset=entry_rows - (classes[0].entry_rows if 0 in classes else 0),",
        ),
        _one(
            "no anchor",
            "ring_start does not subtract the base row that the layer's view adds",
            ROWS,
            "self.arena_rows + rows.entry_offset - rows.anchor - self",
            "self.arena_rows + rows.entry_offset - self",
        ),
        _one(
            "wrong end",
            "slots are counted from the plane's start, where the blocks are",
            ROWS,
            "return self.slot_positions - 1 - group",
            "return group",
        ),
    ]
}
"""The classic ones, by name."""

MORE_FAULTS: Mapping[str, LayoutMutation] = {
    fault.name: fault
    for fault in [
        _one(
            "run by stride",
            "positions of a run are cut one short",
            RING,
            "return (ring_pos // self.ring_stride) * self.run_rows + ring_pos % self.ring_stride",
            "return (ring_pos // max(self.ring_stride - 1, 1)) * self.run_rows + ring_pos % self.ring_stride",
        ),
        _one(
            "no remainder",
            "the place within a run is dropped",
            RING,
            "return (ring_pos // self.ring_stride) * self.run_rows + ring_pos % self.ring_stride",
            "return (ring_pos // self.ring_stride) * self.run_rows",
        ),
        _one(
            "remainder by ring",
            "the place within a run is taken modulo the ring",
            RING,
            "self.run_rows + ring_pos % self.ring_stride",
            "self.run_rows + ring_pos % self.ring_slots",
        ),
        _one(
            "run one row short",
            "a run of all layers is one row short",
            RING,
            "return (ring_pos // self.ring_stride) * self.run_rows",
            "return (ring_pos // self.ring_stride) * (self.run_rows - 1)",
        ),
        _one(
            "slot one row short",
            "slots are read one row closer together than they are",
            RING,
            "return slot * self.slot_rows + self.ring_start",
            "return slot * (self.slot_rows - 1) + self.ring_start",
        ),
        _one(
            "ring start one high",
            "ring_start is one row too high",
            ROWS,
            "ring_start=self.arena_rows + rows.entry_offset - rows.anchor",
            "ring_start=self.arena_rows + rows.entry_offset + 1 - rows.anchor",
        ),
        _one(
            "no arena",
            "windows start where the state does",
            ROWS,
            "ring_start=self.arena_rows + rows.entry_offset",
            "ring_start=rows.entry_offset",
        ),
        _one(
            "no origin",
            "a plane numbered by another is read as if by itself",
            ROWS,
            "- rows.anchor - self.slot_origin * self.slot_rows",
            "- rows.anchor",
        ),
        _one(
            "origin added",
            "the other plane's extra slots are added, not subtracted",
            ROWS,
            "- rows.anchor - self.slot_origin * self.slot_rows",
            "- rows.anchor + self.slot_origin * self.slot_rows",
        ),
        _one(
            "entry offset stuck",
            "every class's windows start where the first class's do",
            ROWS,
            "            entry_rows = entry_rows + placed.entry_rows",
            "            entry_rows = placed.entry_rows",
        ),
        _one(
            "entry one row short",
            "a class's windows are counted one row too few",
            RING,
            "return (num_layers - 1) * ring_stride + last + 1",
            "return (num_layers - 1) * ring_stride + last",
        ),
        _one(
            "entry one layer short",
            "the last layer's windows are not counted",
            RING,
            "return (num_layers - 1) * ring_stride + last + 1",
            "return (num_layers - 2) * ring_stride + last + 1",
        ),
        _one(
            "entry one row long",
            "a class's windows are counted one row too many",
            RING,
            "return (num_layers - 1) * ring_stride + last + 1",
            "return (num_layers - 1) * ring_stride + last + 2",
        ),
        _one(
            "last position missed",
            "the height is taken at the last but one ring position",
            RING,
            "last = ring_offset_for(num_layers, ring_stride, ring_slots - 1)",
            "last = ring_offset_for(num_layers, ring_stride, max(ring_slots - 2, 0))",
        ),
        _one(
            "whole runs",
            "every run is given its full height",
            RING,
            "last = ring_offset_for(num_layers, ring_stride, ring_slots - 1)",
            "last = ring_offset_for(num_layers, ring_stride, -(-ring_slots // ring_stride) * ring_stride - 1)",
        ),
        _one(
            "envelope one row short",
            "an envelope is counted one row too few",
            ROWS,
            "    return classes, envelope_rows, entry_rows",
            "    return classes, envelope_rows - 1, entry_rows",
        ),
        _one(
            "envelope offset stuck",
            "both classes start at an envelope's first row",
            ROWS,
            "            envelope_rows = envelope_rows + counts[ratio] * block_rows[ratio]",
            "            envelope_rows = counts[ratio] * block_rows[ratio]",
        ),
        _one(
            "envelope order",
            "an envelope holds CSA before HCA",
            ROWS,
            "    for ratio in ENVELOPE_ORDER:\n        if ratio in counts:",
            "    for ratio in reversed(ENVELOPE_ORDER):\n        if ratio in counts:",
        ),
        _one(
            "classes swapped in the entry",
            "an entry holds CSA before HCA",
            ROWS,
            "    for ratio in ENTRY_ORDER:\n        if ratio in counts:",
            "    for ratio in (ENTRY_ORDER[0], *ENVELOPE_ORDER[::-1]):\n        if ratio in counts:",
        ),
        _one(
            "block by slot",
            "blocks are taken to be as far apart as slots",
            ROWS,
            "return block * self.envelope_rows + row",
            "return block * self.slot_rows + row",
        ),
        _one(
            "one more row of a block",
            "a row one past the block's last is accepted",
            ROWS,
            "within(row, 0, rows.block_rows),",
            "within(row, 0, rows.block_rows + 1),",
        ),
        _one(
            "group off by one",
            "group 0 is the position after the topmost",
            ROWS,
            "return self.slot_positions - 1 - group",
            "return self.slot_positions - group",
        ),
        _one(
            "lowest group first",
            "groups count upwards from the lowest position in use",
            ROWS,
            "return self.slot_positions - 1 - group",
            "return self.slot_positions - self.num_slots + group",
        ),
        _one(
            "rounded down",
            "a slot's rows are rounded down",
            ROWS,
            "self.slot_rows = round_up(arena_rows + self.entry_rows, slot_align_rows)",
            "self.slot_rows = (arena_rows + self.entry_rows) // slot_align_rows * slot_align_rows",
        ),
        _one(
            "not rounded",
            "a slot's rows are not rounded",
            ROWS,
            "self.slot_rows = round_up(arena_rows + self.entry_rows, slot_align_rows)",
            "self.slot_rows = arena_rows + self.entry_rows",
        ),
        _one(
            "rounded twice",
            "a slot's rows are rounded up to the next multiple even if they are one",
            ROWS,
            "self.slot_rows = round_up(arena_rows + self.entry_rows, slot_align_rows)",
            "self.slot_rows = round_up(arena_rows + self.entry_rows + 1, slot_align_rows)",
        ),
        _one(
            "blocks rounded down",
            "the default plane drops a slot that blocks need in part",
            ROWS,
            "plane_rows = (num_slots + cdiv(taken, self.slot_rows)) * self.slot_rows",
            "plane_rows = (num_slots + taken // self.slot_rows + 1) * self.slot_rows",
        ),
        _one(
            "plane one envelope short",
            "a plane is accepted that lacks room for one block",
            ROWS,
            "taken = num_blocks * self.envelope_rows",
            "taken = (num_blocks - 1) * self.envelope_rows",
        ),
        _one(
            "base one layer on",
            "a layer's view starts one layer later",
            ROWS,
            "return self.anchor + layer_index * self.ring_stride",
            "return self.anchor + (layer_index + 1) * self.ring_stride",
        ),
        _one(
            "base without envelope offset",
            "CSA views start at an envelope's first row",
            ROWS,
            "return self.anchor + layer_index * self.ring_stride",
            "return layer_index * self.ring_stride",
        ),
        _one(
            "dense anchor",
            "a dense layer's view starts one row into the plane",
            ROWS,
            "return 0 if self.ratio == DENSE_RATIO else self.envelope_offset",
            "return 1 if self.ratio == DENSE_RATIO else self.envelope_offset",
        ),
        _one(
            "arena one row long",
            "the state's span covers the first window row",
            ROWS,
            "return start, start + self.arena_rows",
            "return start, start + self.arena_rows + 1",
        ),
        _one(
            "field ring at the slot's start",
            "a field window ignores its field's offset",
            ROWS,
            "ring_start=field_offset_rows // rows_per_window_row - self.slot_origin * slot_rows,",
            "ring_start=0 - self.slot_origin * slot_rows,",
        ),
        _one(
            "field slot in plane rows",
            "a field window's slots are counted in plane rows",
            ROWS,
            "            slot_rows=slot_rows,\n",
            "            slot_rows=self.slot_rows,\n",
        ),
        _one(
            "numbering dropped",
            "moving the boundary renumbers a plane that was numbered by another",
            GEOMETRY,
            "slot_positions=self._numbering if slot_positions is None else slot_positions,",
            "slot_positions=None,",
        ),
        _one(
            "arena dropped",
            "moving the boundary forgets the state",
            GEOMETRY,
            "            self.arena_rows,\n            slot_positions",
            "            0,\n            slot_positions",
        ),
        _one(
            "layer by id",
            "a layer's window index has a layer term",
            GEOMETRY,
            "return self.window_row(self._ratio_of(layer_id), slot, ring_pos)",
            "return self.window_row(self._ratio_of(layer_id), slot, ring_pos) + layer_id",
        ),
        _one(
            "class order reversed",
            "layers of a class are counted from the last",
            GEOMETRY,
            "        return place\n",
            "        return len(self.layers) - 1 - place\n",
        ),
        _one(
            "drafts forgotten",
            "the ring has no room for draft tokens",
            CONFIG,
            "return self.sliding_window + self.draft_tokens",
            "return self.sliding_window",
        ),
        _one(
            "state ring without drafts",
            "a compressor's state ring has no room for draft tokens",
            CONFIG,
            "shape = (self.ratios.count(ratio), pooled + self.draft_tokens, width)",
            "shape = (self.ratios.count(ratio), pooled, width)",
        ),
        _one(
            "arena rounded down",
            "the state's last row is not counted",
            STATE,
            "rows = max(cdiv(end, plane.row_bytes) for end, plane in zip(ends, planes, strict=True))",
            "rows = max(cdiv(end, plane.row_bytes) - 1 for end, plane in zip(ends, planes, strict=True))",
        ),
        _one(
            "fields unaligned",
            "fields follow each other without alignment",
            STATE,
            "start = round_up(ends[plane], field.align_bytes)",
            "start = ends[plane] + 4",
        ),
        _one("odd slots", "slots need not be even", STATE, "        align = 2\n", "        align = 1\n"),
        _one(
            "rounding up adds one",
            "rounding up goes one step too far",
            INDEX,
            "return -(-a // b)",
            "return a // b + 1",
        ),
    ]
}
"""Single-point mutations of the whole specification, by name."""
