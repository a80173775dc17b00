"""What the formulas accept as an argument is an address, and nothing else is."""

from __future__ import annotations

from kvproof.models.index import INT32_MAX, Condition, within
from kvproof.models.row_space import RowSpace
from kvproof.properties.layouts.addresses import entry_ratios, envelope_ratios
from kvproof.properties.statement import Chooser, Needs, statement


@statement(
    "only addresses",
    "A row, block, ring position, slot or group is accepted only within its range: one below and one past it are "
    "refused, a sentinel never becomes an address.",
    needs=Needs(100, {"compressed": 10, "window": 10, "group": 10, "block": 5, "slot": 10}),
    twin="the range is taken to end one earlier",
)
def only_addresses(space: RowSpace, choose: Chooser, slip: int = 0) -> Condition:
    kind = choose.pick("kind", ("compressed", "window", "group", "block", "slot"))
    value = choose.integer("value", -2, INT32_MAX, few=space.plane_rows + 2)
    if kind == "compressed":
        ratio = choose.pick("class", envelope_ratios(space))
        block = choose.integer("block", -2, INT32_MAX, few=2)
        choose.accepted(lambda: space.compress_row(ratio, block, value))
        holds = within(value, 0, space.rows_of(ratio).block_rows - slip) & (block >= 0)
    elif kind == "window":
        ratio = choose.pick("class", entry_ratios(space))
        slot = choose.integer("slot", -2, INT32_MAX, few=2)
        choose.accepted(lambda: space.window_row(ratio, slot, value))
        holds = within(value, 0, space.ring_slots - slip) & (slot >= space.slot_origin)
    elif kind == "group":
        choose.accepted(lambda: space.physical_slot(value))
        holds = within(value, 0, space.num_slots - slip)
    elif kind == "block":
        choose.accepted(lambda: space.block_span(value))
        holds = within(value, 0, space.num_blocks - slip)
    else:
        choose.accepted(lambda: (space.slot_span(value), space.arena_span(value)))
        holds = within(value, space.slot_origin, space.slot_positions - slip)
    choose.event(kind)
    return holds
