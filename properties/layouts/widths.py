"""Integer types: every index fits the type in which kernels receive it, every offset the type they compute in."""

from __future__ import annotations

from kvproof.models.index import INT32_MAX, INT64_MAX, Condition, within
from kvproof.models.row_space import RowSpace
from kvproof.properties.layouts.addresses import choose_compress, choose_window, entry_ratios, envelope_ratios
from kvproof.properties.layouts.pools import Pool
from kvproof.properties.statement import Chooser, Needs, statement


@statement(
    "index fits int32",
    "In a plane of at most 2**31 rows every index is from 0 to 2**31 - 1.",
    needs=Needs(100, {"window": 30, "compressed": 30}),
    twin="the plane may have two slots and two envelopes more",
)
def index_fits(space: RowSpace, choose: Chooser, slip: int = 0) -> Condition:
    kind = choose.pick("kind", ("window", "compressed"))
    choose.event(kind)
    more = slip * 2 * (space.slot_rows + space.envelope_rows)
    choose.assume(space.plane_rows <= INT32_MAX + 1 + more)
    if kind == "window":
        return within(choose_window(space, choose, choose.pick("class", entry_ratios(space))).index, 0, 2**31)
    return within(choose_compress(space, choose, choose.pick("class", envelope_ratios(space))).index, 0, 2**31)


@statement(
    "offset fits int64",
    "In a plane of at most 2**31 rows every byte of every row has an offset of at most 2**63 - 1.",
    system="pool",
    needs=Needs(30),
    twin="32 bits are taken to do",
)
def offset_fits(pool: Pool, choose: Chooser, slip: int = 0) -> Condition:
    space = pool.space
    choose.assume(space.plane_rows <= INT32_MAX + 1)
    row = choose.integer("row", 0, space.plane_rows - 1)
    most = INT32_MAX if slip else INT64_MAX
    holds: Condition = True
    for plane in pool.state.planes:
        holds = holds & ((row + 1) * plane.row_bytes - 1 <= most)
    return holds
