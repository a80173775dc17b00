"""Cases of gathering from the paged cache."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from hypothesis import strategies as st

from kvproof.models.contract import Access, Arguments, TensorValue, contiguous
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.models.index import INT32_MAX
from kvproof.properties.statement import Needs
from kvproof.properties.strategies.cases import (
    MANY_ROWS,
    SEVERAL_ROWS,
    Case,
    KernelProperty,
    poison,
    register_property,
    several_rows,
)
from kvproof.properties.strategies.draws import mostly, rarely, seldom_low, shapes_for
from kvproof.properties.strategies.kernels.page_append import Pages, caches, page_shapes


@st.composite
def cases(draw: st.DrawFn, _subject: ModelConfig | None) -> Case:
    """A few sequences' entries out of a small cache: blocks in no order, ranges that start anywhere."""
    shape = draw(page_shapes())
    sequences = draw(seldom_low(1, 3))
    columns = draw(seldom_low(1, 3))
    launched = draw(shapes_for(*MANY_ROWS))
    places = draw(seldom_low(1, 12 if launched else 6))
    table, events = draw(tables(shape, sequences, columns))
    events |= shape.events | several_rows(shape.data_bytes, places, launched)
    starts: list[int] = []
    counts: list[int] = []
    listed = columns * shape.entries
    for _ in range(sequences):
        start = draw(st.integers(0, listed - 1))
        count = 0 if draw(rarely()) else min(draw(st.integers(1, places)), listed - start)
        if draw(rarely()):
            start = draw(st.sampled_from([-1, -shape.entries, listed - 1, listed, INT32_MAX]))
            count = places
            events.add("past the table")
        if draw(rarely()):
            count = draw(st.sampled_from([-1, places + 1, INT32_MAX]))
            events.add("too many")
        starts.append(start)
        counts.append(count)
        events |= {"from the middle"} if count > 0 and 0 < start < listed else set()
        events |= (
            {"over a page's end"} if count > 0 and 0 <= start % shape.entries + count > shape.entries else set()
        )
    seed = draw(st.integers(0, 2**16))
    seeds = {"cache": 4 * seed, "data": 4 * seed + 1, "scales": 4 * seed + 2}
    return Case(
        values={
            "cache": draw(caches(shape, seeds["cache"])),
            "block_tables": table,
            "starts": contiguous("int32", starts),
            "counts": contiguous("int32", counts),
            "data": records(sequences, places, shape.data_bytes, seeds["data"]),
            "scales": records(sequences, places, shape.scale_bytes, seeds["scales"]),
            "entries": shape.entries,
            "interleaved": shape.interleaved,
        },
        poison=seeds,
        events=frozenset(events),
        shaped_for=launched,
    )


def records(sequences: int, places: int, nbytes: int, seed: int) -> TensorValue:
    """A poisoned result, with a few bytes around it."""
    size = sequences * places * nbytes
    shape = (sequences, places, nbytes)
    return TensorValue("uint8", poison(seed, "uint8", size + 16), shape, (places * nbytes, nbytes, 1), 8)


@st.composite
def tables(draw: st.DrawFn, shape: Pages, sequences: int, columns: int) -> tuple[TensorValue, set[str]]:
    """Block tables whose rows may be further apart than their columns; some ids are no block."""
    events: set[str] = set()
    ids: list[int] = []
    for _ in range(sequences * columns):
        block = draw(st.integers(0, shape.blocks - 1))
        if draw(rarely()) and draw(mostly()):
            block = draw(st.sampled_from([-1, shape.blocks, INT32_MAX, -(2**31)]))
            events.add("no block")
        ids.append(block)
    if any(b < a for a, b in itertools.pairwise(ids)):
        events.add("descending blocks")
    stride = columns + (draw(seldom_low(0, 2)) if draw(mostly()) else 0)
    value = TensorValue("int32", poison(0, "int32", sequences * stride), (sequences, columns), (stride, 1))
    for row in range(sequences):
        value.array[row] = ids[row * columns : (row + 1) * columns]
    return value, events


def explain(a: Arguments, access: Access, at: Mapping[str, int]) -> str:
    """Which entry of which sequence a byte is of."""
    entry = int(a.starts[at["b"]]) + at["i"]
    part = "data" if "data" in access.words else "scale"
    return f"byte {at['byte']} of the {part} record of entry {entry} of sequence {at['b']}"


register_property(
    KernelProperty(
        kernel="page_gather",
        words="each place holds the records of its entry, zeros where it has no block, and no other place changes",
        cases=cases,
        needs=Needs(
            cases=100,
            events={
                "interleaved": 20,
                "data then scales": 20,
                "no block": 10,
                "past the table": 10,
                "too many": 10,
                "descending blocks": 10,
                "from the middle": 20,
                "over a page's end": 10,
                SEVERAL_ROWS: 5,
            },
        ),
        explain=explain,
        system="schema",
    )
)
