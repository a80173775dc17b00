"""What an address does not depend on: the layer within its class, and the boundary between blocks and slots."""

from __future__ import annotations

from kvproof.models.index import Condition, negate
from kvproof.models.row_space import RowSpace, UnifiedPoolGeometry
from kvproof.properties.layouts.addresses import choose_position, choose_slot, entry_ratios, envelope_ratios
from kvproof.properties.statement import Chooser, Needs, statement


@statement(
    "layer independence",
    "An index is the same for all layers of a class, and the rows it reaches are one stride apart.",
    needs=Needs(100, {"window": 30, "compressed": 30, "several layers": 30}),
    twin="the last layer's index is taken to be one higher",
)
def layer_independent(space: UnifiedPoolGeometry, choose: Chooser, slip: int = 0) -> Condition:
    kind = choose.pick("kind", ("window", "compressed"))
    choose.event(kind)
    ratio = choose.pick("class", entry_ratios(space) if kind == "window" else envelope_ratios(space))
    cls = space.classes[ratio]
    choose.event("several layers", cls.num_layers > 1)
    if kind == "window":
        slot = choose_slot(space, choose, "group")
        ring_pos = choose.integer("ring position", 0, space.ring_slots - 1)
        shared = space.window_row(ratio, slot, ring_pos)
        indices = [space.window_index(layer, slot, ring_pos) for layer in cls.layers]
    else:
        block = choose.integer("block", 0, space.num_blocks - 1)
        row = choose.integer("row", 0, cls.block_rows - 1)
        shared = space.compress_row(ratio, block, row)
        indices = [space.compress_index(layer, block, row) for layer in cls.layers]
    indices[-1] = indices[-1] + slip
    first = space.absolute_row(cls.layers[0], shared)
    holds: Condition = True
    for place, (layer, index) in enumerate(zip(cls.layers, indices, strict=True)):
        row_of_layer = space.absolute_row(layer, index)
        holds = holds & (index == shared) & (row_of_layer == first + place * cls.ring_stride)
    return holds


@statement(
    "boundary independence",
    "Moving num_blocks and num_slots at a fixed plane changes no address: only which ones are in use.",
    needs=Needs(100, {"window": 30, "compressed": 30, "boundary moved": 50}),
    twin="the layer's base row is taken to move by one",
)
def boundary_independent(space: RowSpace, choose: Chooser, slip: int = 0) -> Condition:
    slots = choose.integer("slots after", 0, space.held_slots)
    blocks = choose.integer("blocks after", 0, space.held_slots * space.slot_rows, few=space.num_blocks + 2)
    moved = choose.accepted(lambda: space.with_capacity(blocks, slots, space.plane_rows))
    choose.event("boundary moved", negate((slots == space.num_slots) & (blocks == space.num_blocks)))
    kind = choose.pick("kind", ("window", "compressed"))
    choose.event(kind)
    ratio = choose.pick("class", entry_ratios(space) if kind == "window" else envelope_ratios(space))
    rows, moved_rows = space.rows_of(ratio), moved.rows_of(ratio)
    layer = choose.integer("layer", 0, rows.num_layers - 1)
    holds = rows.base_row(layer) + slip == moved_rows.base_row(layer)
    if kind == "window":
        group = choose.integer("group", 0, space.num_slots - 1)
        choose.assume(group < moved.num_slots)
        position = choose_position(space, choose, "position")
        before = space.window_params(ratio).index(space.physical_slot(group), position)
        after = moved.window_params(ratio).index(moved.physical_slot(group), position)
    else:
        block = choose.integer("block", 0, space.num_blocks - 1)
        choose.assume(block < moved.num_blocks)
        row = choose.integer("row", 0, rows.block_rows - 1)
        before, after = space.compress_row(ratio, block, row), moved.compress_row(ratio, block, row)
    return holds & (before == after)
