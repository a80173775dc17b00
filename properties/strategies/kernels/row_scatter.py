"""Cases of the row scatter."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import strategies as st

from kvproof.models.contract import Access, Arguments, contiguous
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.models.index import INT32_MAX
from kvproof.properties.statement import Needs
from kvproof.properties.strategies.buffers import poisoned_rows, row_types
from kvproof.properties.strategies.cases import (
    MANY_ROWS,
    SEVERAL_ROWS,
    Case,
    KernelProperty,
    register_property,
    several_rows,
)
from kvproof.properties.strategies.draws import seldom_low, shapes_for
from kvproof.properties.strategies.tokens import stale_tail, taken

EVENTS = {
    "padded token": 10,
    "negative row": 10,
    "stale row": 10,
    "several tokens": 50,
    "descending rows": 10,
    SEVERAL_ROWS: 10,
}


@dataclass(frozen=True)
class Destinations:
    """Rows and batch ids of some tokens, and the rows of the pool that they are for."""

    rows: list[int]
    ids: list[int]
    pool_rows: int
    events: frozenset[str]
    shaped_for: int


@st.composite
def destinations(draw: st.DrawFn) -> Destinations:
    """Tokens with distinct rows in no order, padded and stale ones among them. Shrinks to no token."""
    pool_rows = draw(seldom_low(1, 12))
    shape = draw(shapes_for(*MANY_ROWS))
    count = draw(seldom_low(0, 12 if shape else 8))
    rows = taken(draw, range(pool_rows), count)
    ids = [draw(seldom_low(0, 3)) for _ in range(count)]
    events: set[str] = set()
    for t in range(count):
        row = rows[t] if t < len(rows) else -1
        kind = draw(st.sampled_from(["live", "live", "live", "padded token", "negative row", "stale row"]))
        if kind == "padded token":
            ids[t] = draw(st.integers(-(2**31), -1))
            # A padded token's row is whatever an earlier step left: maybe one that a live token has now.
            row = draw(st.sampled_from([*rows, -1, pool_rows]))
        elif kind == "negative row" or row < 0:
            row = -1 - draw(st.integers(0, 2**31 - 1))
        elif kind == "stale row":
            row = draw(st.one_of(st.just(pool_rows), st.integers(pool_rows, INT32_MAX)))
            row = row if row not in rows[:t] else pool_rows + t
        if kind != "live":
            events.add(kind)
        rows = [*rows[:t], row, *rows[t + 1 :]]
    events |= {"several tokens"} if count > 1 else set()
    live = [r for r, i in zip(rows, ids, strict=True) if i >= 0 and 0 <= r < pool_rows]
    events |= {"descending rows"} if any(b < a for a, b in itertools.pairwise(live)) else set()
    return Destinations(rows, ids, pool_rows, frozenset(events), shape)


def distinct(found: Destinations) -> bool:
    """Whether live tokens have rows of their own, as a caller guarantees."""
    live = [r for r, i in zip(found.rows, found.ids, strict=True) if i >= 0 and r >= 0]
    return len(set(live)) == len(live)


@st.composite
def cases(draw: st.DrawFn, _subject: ModelConfig | None) -> Case:
    """A few tokens into a small pool. A configuration changes nothing: the rows come as numbers."""
    found = draw(destinations().filter(distinct))
    kind = draw(row_types())
    seed = draw(st.integers(0, 2**16))
    return Case(
        values={
            "kv": draw(poisoned_rows(kind, len(found.rows), 2 * seed)),
            "dest_rows": contiguous("int32", stale_tail(draw, found.rows)),
            "batch_id_per_token": contiguous("int32", stale_tail(draw, found.ids)),
            "pool": draw(poisoned_rows(kind, found.pool_rows, 2 * seed + 1)),
        },
        poison={"kv": 2 * seed, "pool": 2 * seed + 1},
        events=found.events | several_rows(kind.nbytes, len(found.rows), found.shaped_for),
        shaped_for=found.shaped_for,
    )


@st.composite
def plane_cases(draw: st.DrawFn, _subject: ModelConfig | None) -> Case:
    """The same in two planes of different row types."""
    found = draw(destinations().filter(distinct))
    kind, rope = draw(row_types()), draw(row_types())
    seed = draw(st.integers(0, 2**16))
    names = {"k_packed": 4 * seed, "k_rope": 4 * seed + 1, "pool": 4 * seed + 2, "pool_rope": 4 * seed + 3}
    return Case(
        values={
            "k_packed": draw(poisoned_rows(kind, len(found.rows), names["k_packed"])),
            "k_rope": draw(poisoned_rows(rope, len(found.rows), names["k_rope"])),
            "dest_rows": contiguous("int32", stale_tail(draw, found.rows)),
            "batch_id_per_token": contiguous("int32", stale_tail(draw, found.ids)),
            "pool": draw(poisoned_rows(kind, found.pool_rows, names["pool"])),
            "pool_rope": draw(poisoned_rows(rope, found.pool_rows, names["pool_rope"])),
        },
        poison=names,
        events=found.events | several_rows(kind.nbytes, len(found.rows), found.shaped_for),
        shaped_for=found.shaped_for,
    )


def explain(a: Arguments, _access: Access, at: Mapping[str, int]) -> str:
    """Which token a row is for."""
    t = at["t"]
    return f"token {t} (batch id {int(a.batch_id_per_token[t])}, destination row {int(a.dest_rows[t])})"


for _name, _cases in (("row_scatter", cases), ("row_scatter_planes", plane_cases)):
    register_property(
        KernelProperty(
            kernel=_name,
            words="each live token's row is in its destination, and nothing else of any tensor changed",
            cases=_cases,
            needs=Needs(cases=100, events=EVENTS),
            explain=explain,
        )
    )
