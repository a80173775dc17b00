"""The ring of a window: which positions share a row, and that a class takes as few rows as any construction."""

from __future__ import annotations

from kvproof.models.index import Condition, implies, negate, within
from kvproof.models.row_space import DENSE_RATIO, RowSpace
from kvproof.properties.layouts.addresses import (
    choose_position,
    choose_slot,
    entry_ratios,
    envelope_ratios,
)
from kvproof.properties.statement import Chooser, Needs, statement


@statement(
    "ring positions",
    "Two positions of a layer and slot share a row exactly if they are congruent modulo the ring, so any R "
    "consecutive ones have R rows.",
    needs=Needs(100, {"same row": 10, "within one turn": 20}),
    twin="R + 1 consecutive positions are taken to have rows of their own",
)
def ring_positions(space: RowSpace, choose: Chooser, slip: int = 0) -> Condition:
    ratio = choose.pick("class", entry_ratios(space))
    slot = choose_slot(space, choose, "group")
    params = space.window_params(ratio)
    a, b = choose_position(space, choose, "position a"), choose_position(space, choose, "position b")
    row_a, row_b = params.index(slot, a), params.index(slot, b)
    place_a, place_b = a % space.ring_slots, b % space.ring_slots
    choose.event("same row", row_a == row_b)
    choose.event("within one turn", within(b - a, 1, space.ring_slots))
    choose.lemma("congruent positions share a row", implies(place_a == place_b, row_a == row_b))
    choose.lemma("a row is one place of the ring", implies(row_a == row_b, place_a == place_b))
    return implies(within(b - a, 1, space.ring_slots + slip), negate(row_a == row_b))


@statement(
    "no more rows",
    "A class's part has no row to spare: every row of an envelope and of a dense entry is some address, and the "
    "last row of an interleaved entry is the last layer's last ring position.",
    needs=Needs(100, {"envelope": 30, "entry": 30}),
    twin="the part is taken to have one more row",
)
def no_more_rows(space: RowSpace, choose: Chooser, slip: int = 0) -> Condition:
    part = choose.pick("part", ("envelope", "entry"))
    choose.event(part)
    if part == "envelope":
        rows = space.rows_of(choose.pick("class", envelope_ratios(space)))
        block = choose.integer("block", 0, space.num_blocks - 1)
        place = choose.integer("place", 0, rows.envelope_rows - 1 + slip)
        layer = place // rows.ring_stride
        index = space.compress_row(rows.ratio, block, place % rows.ring_stride)
        reached = rows.base_row(layer) + index == space.block_span(block)[0] + rows.envelope_offset + place
        return (layer < rows.num_layers) & reached
    rows = space.rows_of(choose.pick("class", entry_ratios(space)))
    slot = choose_slot(space, choose, "group")
    start = space.slot_span(slot)[0] + space.arena_rows + rows.entry_offset
    params = space.window_params(rows.ratio)
    if rows.ratio != DENSE_RATIO:
        last = rows.base_row(rows.num_layers - 1) + params.index(slot, space.ring_slots - 1)
        return last == start + rows.entry_rows - 1 + slip
    place = choose.integer("place", 0, rows.entry_rows - 1 + slip)
    layer = place // rows.ring_stride
    reached = rows.base_row(layer) + params.index(slot, place % rows.ring_stride) == start + place
    return (layer < rows.num_layers) & reached


@statement(
    "least height",
    "No shared f with all i * stride + f(q) distinct is lower. Fold f(q) to (f div run height, f mod stride): "
    "positions that fold alike collide, and below the construction's last offset there are fewer than R folds.",
    needs=Needs(100, {"folds alike": 10, "below": 30}),
    twin="there are taken to be fewer than R - 1 folds",
)
def least_height(space: RowSpace, choose: Chooser, slip: int = 0) -> Condition:
    """Both halves of the bound; that R positions do not fit R - 1 folds (the pigeonhole) is the step by hand."""
    rows = space.rows_of(choose.pick("class", entry_ratios(space)))
    stride, run = rows.ring_stride, rows.num_layers * rows.ring_stride
    last = rows.ring_offset(space.ring_slots - 1)
    # Values that some f has at two positions, the first not above the second.
    low = choose.integer("f low", 0, 2 * run + last)
    high = choose.integer("f high", low, 2 * run + last)
    fold_low = (low // run) * stride + low % stride
    fold_high = (high // run) * stride + high % stride
    choose.event("folds alike", fold_low == fold_high)
    choose.event("below", high < last)
    layers = high // stride - low // stride
    alike = (low // run == high // run) & (low % stride == high % stride)
    collide = within(layers, 0, rows.num_layers) & (layers * stride + low == high)
    choose.lemma("the fold is one-to-one", implies(fold_low == fold_high, alike))
    choose.lemma("values that fold alike meet in some pair of layers", implies(alike, collide))
    runs = high // run
    choose.lemma("runs are whole strides", runs * rows.num_layers * stride == runs * run)
    return implies(high < last, within(fold_high, 0, space.ring_slots - 1 - slip))
