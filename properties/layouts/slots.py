"""Slots: groups and positions, planes that share a numbering, and how large a plane has to be."""

from __future__ import annotations

from kvproof.models.index import Condition, implies, within
from kvproof.models.row_space import RowSpace, UnifiedPoolGeometry
from kvproof.properties.layouts.addresses import choose_position, entry_ratios
from kvproof.properties.statement import Chooser, Needs, statement


@statement(
    "physical slots",
    "Pool groups and the topmost num_slots positions match one to one, group 0 topmost; a further group takes the "
    "next position down and moves no other.",
    needs=Needs(100, {"onto": 30, "grow": 30}),
    twin="the lowest position in use is taken to be one further up",
)
def physical_slots(space: RowSpace, choose: Chooser, slip: int = 0) -> Condition:
    what = choose.pick("what", ("into", "onto", "grow"))
    choose.event(what)
    top = space.slot_positions - 1
    lowest = space.slot_positions - space.num_slots + slip
    if what == "into":
        a = choose.integer("group a", 0, space.num_slots - 1)
        b = choose.integer("group b", 0, space.num_slots - 1)
        slot_a, slot_b = space.physical_slot(a), space.physical_slot(b)
        return (
            within(slot_a, lowest, top + 1) & implies(slot_a == slot_b, a == b) & (space.physical_slot(0) == top)
        )
    if what == "onto":
        slot = choose.integer("slot", space.slot_positions - space.num_slots, top)
        group = top - slot
        return within(group, 0, space.num_slots - slip) & (space.physical_slot(group) == slot)
    grown = choose.accepted(lambda: space.with_capacity(space.num_blocks, space.num_slots + 1, space.plane_rows))
    group = choose.integer("group", 0, space.num_slots - 1)
    kept = grown.physical_slot(group) == space.physical_slot(group)
    return kept & (grown.physical_slot(space.num_slots) == lowest - 1)


@statement(
    "planes numbered alike",
    "Two planes that share a numbering call a group by one slot and place its rows alike within the slot; if both "
    "hold as many slots, the same index reaches the same row.",
    needs=Needs(100, {"as many slots": 20, "other origin": 5}),
    twin="the second plane is read as if numbered from one slot further",
)
def planes_numbered_alike(space: RowSpace, choose: Chooser, slip: int = 0) -> Condition:
    # The other plane's rows: any that hold at most as many slots as the shared numbering counts.
    most = (space.slot_positions + 1) * space.slot_rows - 1
    plane_rows = choose.integer("other plane_rows", 0, most)
    other = choose.accepted(
        lambda: space.with_capacity(0, space.num_slots, plane_rows, slot_positions=space.slot_positions)
    )
    choose.event("as many slots", other.held_slots == space.held_slots)
    choose.event("other origin", other.slot_origin > space.slot_origin)
    ratio = choose.pick("class", entry_ratios(space))
    group = choose.integer("group", 0, space.num_slots - 1)
    position = choose_position(space, choose, "position")
    slot, other_slot = space.physical_slot(group), other.physical_slot(group)
    index = space.window_params(ratio).index(slot, position)
    other_index = other.window_params(ratio).index(other_slot + slip, position)
    within_slot = index - (slot - space.slot_origin) * space.slot_rows
    other_within = other_index - (other_slot - other.slot_origin) * space.slot_rows
    same_index = implies(other.held_slots == space.held_slots, index == other_index)
    return (slot == other_slot) & (within_slot == other_within) & same_index


@statement(
    "default plane",
    "A plane sized by its counts holds just them: as many whole slots as they need, numbered from 0, no rest.",
    needs=Needs(100, {"blocks": 30}),
    twin="one slot fewer is taken to do",
)
def default_plane(space: UnifiedPoolGeometry, choose: Chooser, slip: int = 0) -> Condition:
    blocks = choose.integer("blocks", 0, space.num_blocks)
    choose.event("blocks", blocks > 0)
    fitted = choose.accepted(
        lambda: type(space)(
            space.ratios,
            blocks,
            space.num_slots,
            space.ring_slots,
            space.block_size,
            arena_rows=space.arena_rows,
            slot_align_rows=space.slot_align_rows,
        )
    )
    taken = blocks * fitted.envelope_rows
    under = fitted.held_slots - fitted.num_slots - slip
    enough = (under * fitted.slot_rows >= taken) & ((under - 1) * fitted.slot_rows < taken)
    whole = fitted.held_slots * fitted.slot_rows == fitted.plane_rows
    return whole & enough & (fitted.slot_origin == 0) & (fitted.slot_positions == fitted.held_slots)
