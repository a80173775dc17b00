"""The planted layout faults, as data: one row each."""

from __future__ import annotations

from collections.abc import Mapping

from kvproof.harness.mutate.layouts import LayoutMutation
from kvproof.harness.mutate.patched import Patch

RING = "models.row_space.ring"
ROWS = "models.row_space.rows"
GEOMETRY = "models.row_space.geometry"


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
"""By name."""
