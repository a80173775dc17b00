"""The state at a slot's front: its fields, the windows among them, and the alignment that retyped views need."""

from __future__ import annotations

from kvproof.models.deepseek_v4.state import FIELD_ALIGN_BYTES
from kvproof.models.index import Condition
from kvproof.models.row_space import RowSpace
from kvproof.properties.layouts.addresses import choose_position, choose_slot, choose_window, entry_ratios
from kvproof.properties.layouts.pools import Pool
from kvproof.properties.statement import Chooser, Needs, statement


@statement(
    "field window",
    "A window that is a state field, read through a view retyped to its width, covers exactly its own plane rows: "
    "inside the state, one ring place a row, and apart from every other place, slot and class window.",
    needs=Needs(100, {"wide": 10, "same slot": 20}),
    twin="the window's rows are taken to be one plane row wider",
)
def field_window(space: RowSpace, choose: Chooser, slip: int = 0) -> Condition:
    width = choose.pick("plane rows of a window row", (1, 2, 8))
    offset = choose.integer("field offset", 0, space.arena_rows)
    params = choose.accepted(lambda: space.field_window_params(offset, width))
    slot, position = choose_slot(space, choose, "group a"), choose_position(space, choose, "position a")
    start = params.index(slot, position) * width
    choose.event("wide", width > 1)
    own = space.slot_span(slot)[0] + offset + position % space.ring_slots * width
    inside = (start >= space.arena_span(slot)[0]) & (start + width <= space.arena_span(slot)[1])
    choose.lemma("the row is its ring place's own plane rows", start == own)
    choose.lemma("its plane rows are in the slot's state", inside)
    if choose.pick("against", ("field window", "class window")) == "class window":
        window = choose_window(space, choose, choose.pick("class", entry_ratios(space)), " b")
        choose.event("same slot", slot == window.slot)
        choose.lemma("the other row is in its class's part of its slot", window.in_span(space))
        above = window.row >= space.arena_span(slot)[1] + window.rows.entry_offset + slip
        return above & (window.slot >= slot) | (window.row < start) & (window.slot < slot)
    other_slot, other_position = (
        choose_slot(space, choose, "group b"),
        choose_position(space, choose, "position b"),
    )
    other = params.index(other_slot, other_position) * width
    choose.event("same slot", slot == other_slot)
    other_inside = (other >= space.arena_span(other_slot)[0]) & (other + width <= space.arena_span(other_slot)[1])
    choose.lemma("the other row's plane rows are in its slot's state", other_inside)
    same = (slot == other_slot) & (position % space.ring_slots == other_position % space.ring_slots)
    return same | (other >= start + width + slip) | (other + width <= start)


@statement(
    "state fields",
    "The state's fields lie one after another inside the slot's state in their plane, each at its alignment, and "
    "a window among them is accepted as one.",
    system="pool",
    needs=Needs(30, {"two planes": 5}),
    twin="the state is taken to be one row shorter",
)
def state_fields(pool: Pool, choose: Chooser, slip: int = 0) -> Condition:
    space, state = pool.space, pool.state
    slot = choose_slot(space, choose, "group")
    start, stop = space.arena_span(slot)
    choose.event("two planes", len(state.planes) > 1)
    holds: Condition = True
    for number, plane in enumerate(state.planes):
        end = start * plane.row_bytes
        for item in state.placed:
            if item.plane != number:
                continue
            first = start * plane.row_bytes + item.offset
            holds = holds & (first >= end) & (first % item.field.align_bytes == 0)
            end = first + item.field.nbytes
            if item.field.window_row_bytes is not None:
                # One ring a layer: each is a field window of its own.
                ring_bytes = item.field.shape[1] * item.field.window_row_bytes
                width = item.field.window_row_bytes // plane.row_bytes
                for layer in range(item.field.shape[0]):
                    offset = item.offset + layer * ring_bytes
                    params = space.field_window_params(offset // plane.row_bytes, width)
                    place = params.index(slot, 0) * item.field.window_row_bytes
                    holds = holds & (place == start * plane.row_bytes + offset)
        holds = holds & (end <= (stop - slip) * plane.row_bytes)
    return holds


@statement(
    "slot alignment",
    "Every slot starts at a byte boundary that views of the state can be retyped from, in every plane.",
    system="pool",
    needs=Needs(30),
    twin="the slot is taken to start one byte later",
)
def slot_alignment(pool: Pool, choose: Chooser, slip: int = 0) -> Condition:
    space = pool.space
    start = space.slot_span(choose_slot(space, choose, "group"))[0]
    holds: Condition = start % space.slot_align_rows == 0
    for plane in pool.state.planes:
        holds = holds & ((start * plane.row_bytes + slip) % FIELD_ALIGN_BYTES == 0)
    return holds
