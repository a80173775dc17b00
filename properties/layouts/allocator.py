"""The pool allocator's contract: blocks and slots that are apart share no row, and no more blocks would be."""

from __future__ import annotations

from kvproof.models.index import Condition, negate
from kvproof.models.pool import apart, most_blocks
from kvproof.models.row_space import RowSpace
from kvproof.properties.layouts.addresses import envelope_ratios
from kvproof.properties.statement import Chooser, Needs, statement


@statement(
    "pool allocator",
    "While so many blocks and slots are apart, every block ends where any slot starts, or before; the most blocks "
    "beside some slots are apart from them, and one block more is not.",
    needs=Needs(100, {"apart": 30, "most": 30}),
    twin="one block more is taken to be apart too",
)
def allocator_keeps_apart(space: RowSpace, choose: Chooser, slip: int = 0) -> Condition:
    slots = choose.integer("slots", 0, space.held_slots)
    what = choose.pick("what", ("apart", "most") if envelope_ratios(space) else ("apart",))
    choose.event(what)
    if what == "most":
        blocks = most_blocks(space, slots)
        return apart(space, blocks + slip, slots) & negate(apart(space, blocks + 1, slots))
    blocks = choose.integer("blocks", 0, space.plane_rows, few=space.num_blocks + 2)
    choose.assume(apart(space, blocks, slots))
    block = choose.integer("block", 0, blocks - 1)
    group = choose.integer("group", 0, slots - 1)
    moved = choose.accepted(lambda: space.with_capacity(blocks, slots, space.plane_rows))
    end = moved.block_span(block)[1] + slip * space.envelope_rows
    choose.lemma("no block is after the last", end <= (blocks + slip) * space.envelope_rows)
    return end <= moved.slot_span(moved.physical_slot(group))[0]
