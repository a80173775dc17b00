"""What a row is, read back from the row space, agrees with every address formula."""

from __future__ import annotations

import pytest

from kvproof.harness.check.places import place_of
from kvproof.models.deepseek_v4 import CONFIGS
from kvproof.models.row_space import CLASS_NAMES, UnifiedPoolGeometry

SPACE = UnifiedPoolGeometry(
    [0, 4, 128, 4, 128, -1, 0],
    2,
    2,
    ring_slots=5,
    block_size=256,
    plane_rows=1005,
    arena_rows=3,
    slot_positions=12,
)


def test_every_window_row_is_named() -> None:
    for layer, ratio in enumerate(SPACE.ratios):
        if ratio < 0:
            continue
        index = SPACE.layer_class(layer).layer_index(layer)
        for group in range(SPACE.num_slots):
            slot = SPACE.physical_slot(group)
            for ring_pos in range(SPACE.ring_slots):
                row = SPACE.absolute_row(layer, SPACE.window_index(layer, slot, ring_pos))
                wanted = f"ring position {ring_pos} of {CLASS_NAMES[ratio]} layer {index}, slot {slot}"
                assert place_of(SPACE, row) == wanted


def test_every_compressed_row_is_named() -> None:
    for layer, ratio in enumerate(SPACE.ratios):
        if ratio <= 0:
            continue
        cls = SPACE.layer_class(layer)
        for block in range(SPACE.num_blocks):
            for place in range(cls.block_rows):
                row = SPACE.absolute_row(layer, SPACE.compress_index(layer, block, place))
                name = f"compressed row {place} of {CLASS_NAMES[ratio]} layer {cls.layer_index(layer)}"
                assert place_of(SPACE, row) == f"{name}, block {block}"


def test_rows_of_nobody_are_named_too() -> None:
    slot = SPACE.physical_slot(1)
    start, _ = SPACE.slot_span(slot)
    assert place_of(SPACE, start) == f"row 0 of the arena, slot {slot}"
    assert place_of(SPACE, start - 1) == "gap between blocks and slots"
    assert place_of(SPACE, SPACE.held_slots * SPACE.slot_rows) == "rest above the topmost slot"
    assert place_of(SPACE, 1004) == "rest above the topmost slot"
    assert place_of(SPACE, 1005) == place_of(SPACE, -1) == "outside the plane"


@pytest.mark.parametrize("name", ["v4-flash", "v4-pro-dspark"])
def test_unused_rows_of_real_layouts(name: str) -> None:
    space = CONFIGS[name].geometry(1, 1)
    start, stop = space.slot_span(space.physical_slot(0))
    named = [place_of(space, row) for row in range(start, stop)]
    used = sum(c.num_layers for c in space.classes.values()) * space.ring_slots
    assert sum(text.startswith("ring position") for text in named) == used
    assert sum("arena" in text for text in named) == space.arena_rows
    # A run that the ring does not fill, and alignment, are all that is left.
    spare = space.slot_rows - space.arena_rows - used
    assert sum(text.startswith(("unused", "alignment")) for text in named) == spare
