"""No two addresses meet: windows, compressed rows, and the compressor state."""

from __future__ import annotations

from kvproof.models.index import Condition, implies, negate
from kvproof.models.row_space import RowSpace
from kvproof.properties.layouts.addresses import (
    choose_compress,
    choose_slot,
    choose_window,
    differ_by_at_most,
    entry_ratios,
    envelope_ratios,
    pick_pair,
)
from kvproof.properties.statement import Chooser, Needs, statement

TWO_APART = "rows of different addresses must be two apart, or one further from the next region than they are"


@statement(
    "window/window",
    "Two window rows are one row only if class, layer, slot and ring position all agree; an entry holds dense "
    "before HCA before CSA.",
    needs=Needs(100, {"same class": 30, "other class": 5, "same slot": 30, "past the first turn": 30}),
    twin=TWO_APART,
)
def windows_apart(space: RowSpace, choose: Chooser, slip: int = 0) -> Condition:
    first, second = pick_pair(choose, entry_ratios(space))
    a, b = choose_window(space, choose, first, " a"), choose_window(space, choose, second, " b")
    choose.event("same class", first == second)
    choose.event("other class", first != second)
    choose.event("same slot", a.slot == b.slot)
    choose.event("past the first turn", a.position >= space.ring_slots)
    choose.lemma("row a is in its class's part of its slot", a.in_span(space))
    choose.lemma("row b is in its class's part of its slot", b.in_span(space))
    choose.lemma("one row means one slot", implies(a.row == b.row, a.slot == b.slot))
    if first == second:
        same_place = a.position % space.ring_slots == b.position % space.ring_slots
        same = (a.layer == b.layer) & (a.slot == b.slot) & same_place
        return implies(differ_by_at_most(a.row, b.row, slip), same)
    between = b.rows.entry_offset - a.rows.entry_offset - a.rows.entry_rows
    apart = implies(a.slot == b.slot, b.row - a.row > between + slip)
    return negate(a.row == b.row) & apart & (between >= 0)


@statement(
    "compress/compress",
    "Two compressed rows are one row only if class, layer, block and row in the block all agree; an envelope "
    "holds HCA before CSA.",
    needs=Needs(100, {"same class": 30, "other class": 5, "same block": 30}),
    twin=TWO_APART,
)
def compressed_apart(space: RowSpace, choose: Chooser, slip: int = 0) -> Condition:
    first, second = pick_pair(choose, envelope_ratios(space))
    a, b = choose_compress(space, choose, first, " a"), choose_compress(space, choose, second, " b")
    choose.event("same class", first == second)
    choose.event("other class", first != second)
    choose.event("same block", a.block == b.block)
    choose.lemma("row a is in its class's part of its block", a.in_span(space))
    choose.lemma("row b is in its class's part of its block", b.in_span(space))
    choose.lemma("one row means one block", implies(a.row == b.row, a.block == b.block))
    if first == second:
        same = (a.layer == b.layer) & (a.block == b.block) & (a.place == b.place)
        return implies(differ_by_at_most(a.row, b.row, slip), same)
    between = b.rows.envelope_offset - a.rows.envelope_offset - a.rows.envelope_rows
    apart = implies(a.block == b.block, b.row - a.row > between + slip)
    return negate(a.row == b.row) & apart & (between >= 0)


@statement(
    "window/compress",
    "No window row is a compressed row: every window lies above every compressed row.",
    needs=Needs(100, {"adjacent regions": 1}),
    twin=TWO_APART,
)
def windows_above_compressed(space: RowSpace, choose: Chooser, slip: int = 0) -> Condition:
    a = choose_window(space, choose, choose.pick("class a", entry_ratios(space)), " a")
    b = choose_compress(space, choose, choose.pick("class b", envelope_ratios(space)), " b")
    choose.event("adjacent regions", space.held_slots - space.num_slots - 1 == b.block)
    choose.lemma("row a is in its class's part of its slot", a.in_span(space))
    choose.lemma("row b is in its class's part of its block", b.in_span(space))
    # What lies between the two at the least: the rest of b's envelope, then the front of a's slot.
    between = (
        space.envelope_rows
        - (b.rows.envelope_offset + b.rows.envelope_rows)
        + space.arena_rows
        + a.rows.entry_offset
    )
    return a.row - b.row > between + slip


@statement(
    "arena apart",
    "A slot's compressor state meets no other slot's, no window and no envelope; nor does its padding.",
    needs=Needs(100, {"same slot": 20}),
    twin="the state region is one row longer at each end",
)
def arena_apart(space: RowSpace, choose: Chooser, slip: int = 0) -> Condition:
    against = choose.pick("against", ("arena", "window", "block", "padding"))
    slot = choose_slot(space, choose, "group")
    start, stop = space.arena_span(slot)
    start, stop = start - slip, stop + slip
    if against == "arena":
        other = choose_slot(space, choose, "other group")
        choose.event("same slot", slot == other)
        other_start, other_stop = space.slot_span(other)
        # The other slot's windows and padding lie between its state and this one's, or above both.
        first, second = space.arena_span(other)
        choose.lemma("the state opens its slot", (first == other_start) & (second <= other_stop))
        return (slot == other) | (stop <= other_start) | (other_stop <= start)
    if against == "window":
        window = choose_window(space, choose, choose.pick("class", entry_ratios(space)), " w")
        choose.event("same slot", slot == window.slot)
        choose.lemma("the row is in its class's part of its slot", window.in_span(space))
        above = window.row >= stop + window.rows.entry_offset
        return above & (window.slot >= slot) | (window.row < start) & (window.slot < slot)
    if against == "block":
        block = choose.integer("block", 0, space.num_blocks - 1)
        return space.block_span(block)[1] <= start
    # Above the windows there is only what rounds the slot up.
    used = space.arena_rows + space.entry_rows
    padding = space.slot_span(slot)[1] - (space.arena_span(slot)[1] + space.entry_rows)
    return padding + slip == -used % space.slot_align_rows
