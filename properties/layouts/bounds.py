"""Every address is inside what it belongs to: its class's part, its layer's view, the plane."""

from __future__ import annotations

from kvproof.models.index import Condition, within
from kvproof.models.row_space import RowSpace
from kvproof.properties.layouts.addresses import choose_compress, choose_window, entry_ratios, envelope_ratios
from kvproof.properties.statement import Chooser, Needs, statement


@statement(
    "in own part",
    "A window row lies in its class's part of its slot's entry, a compressed row in that of its envelope.",
    needs=Needs(100, {"window": 30, "compressed": 30}),
    twin="the part starts one row later",
)
def in_own_part(space: RowSpace, choose: Chooser, slip: int = 0) -> Condition:
    kind = choose.pick("kind", ("window", "compressed"))
    choose.event(kind)
    if kind == "window":
        return choose_window(space, choose, choose.pick("class", entry_ratios(space))).in_span(space, slip)
    return choose_compress(space, choose, choose.pick("class", envelope_ratios(space))).in_span(space, slip)


@statement(
    "in view",
    "An index is at least 0 and ends within its layer's view; the row it reaches is inside the plane.",
    needs=Needs(100, {"window": 30, "compressed": 30}),
    twin="the plane is taken to be one slot shorter (for a compressed row: to start one row later)",
)
def in_view(space: RowSpace, choose: Chooser, slip: int = 0) -> Condition:
    kind = choose.pick("kind", ("window", "compressed"))
    choose.event(kind)
    if kind == "window":
        window = choose_window(space, choose, choose.pick("class", entry_ratios(space)))
        stop = space.plane_rows - slip * space.slot_rows
        inside = within(window.row, 0, stop)
        return inside & within(window.index, 0, stop - window.rows.base_row(window.layer))
    row = choose_compress(space, choose, choose.pick("class", envelope_ratios(space)))
    inside = within(row.row, 0, space.plane_rows)
    return inside & within(row.index, slip, space.plane_rows - row.rows.base_row(row.layer))
