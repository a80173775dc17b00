"""Cases of appending to the paged cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import strategies as st

from kvproof.models.contract import Access, Arguments, TensorValue, contiguous
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.properties.statement import Needs
from kvproof.properties.strategies.buffers import RowType, poisoned_rows
from kvproof.properties.strategies.cases import (
    MANY_ROWS,
    SEVERAL_ROWS,
    Case,
    KernelProperty,
    register_property,
    several_rows,
)
from kvproof.properties.strategies.draws import mostly, rarely, seldom_low, shapes_for


@dataclass(frozen=True)
class Pages:
    """The shape of a small paged cache: blocks, entries of each, bytes of the two records, spare page bytes."""

    blocks: int
    entries: int
    data_bytes: int
    scale_bytes: int
    interleaved: bool
    spare: int

    @property
    def page_bytes(self) -> int:
        """Bytes of a page."""
        return self.entries * (self.data_bytes + self.scale_bytes) + self.spare

    @property
    def events(self) -> set[str]:
        """What the shape shows."""
        found = {"interleaved" if self.interleaved else "data then scales"}
        return found | ({"padded page"} if self.spare else set())


@st.composite
def page_shapes(draw: st.DrawFn) -> Pages:
    """A cache of a few pages. Shrinks to one entry of one byte each, data then scales."""
    return Pages(
        blocks=draw(seldom_low(1, 4)),
        entries=draw(seldom_low(1, 5)),
        data_bytes=draw(seldom_low(1, 9)),
        scale_bytes=draw(seldom_low(1, 4)),
        interleaved=draw(st.booleans()),
        spare=draw(seldom_low(0, 3)) if draw(mostly()) else 0,
    )


@st.composite
def caches(draw: st.DrawFn, shape: Pages, seed: int) -> TensorValue:
    """A poisoned cache with guard pages around it, its pages maybe further apart than their bytes."""
    return draw(poisoned_rows(RowType("uint8", shape.page_bytes), shape.blocks, seed))


@st.composite
def cases(draw: st.DrawFn, _subject: ModelConfig | None) -> Case:
    """A few tokens into a small cache, in no order, sentinels and stale slots among them."""
    shape = draw(page_shapes())
    slots = shape.blocks * shape.entries
    # A list, so that a token which a fault does not need is dropped from it.
    live = st.integers(0, slots - 1)
    other = st.one_of(st.integers(slots, slots + 2), st.integers(slots, 2**62), st.integers(-(2**62), -1))
    mapping = draw(st.lists(st.one_of(live, live, live, other), max_size=12, unique=True))
    count = len(mapping)
    launched = draw(shapes_for(*MANY_ROWS))
    events = shape.events | several_rows(shape.data_bytes, count, launched)
    for slot in mapping:
        events |= {"padded token"} if slot < 0 else set()
        events |= {"stale slot"} if slot >= slots else set()
        events |= {"later entry"} if 0 <= slot < slots and slot % shape.entries else set()
        events |= {"later page"} if shape.entries <= slot < slots else set()
    if draw(rarely()):
        mapping += draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=2))
    seed = draw(st.integers(0, 2**16))
    return Case(
        values={
            "data": draw(poisoned_rows(RowType("uint8", shape.data_bytes), count, 4 * seed)),
            "scales": draw(poisoned_rows(RowType("uint8", shape.scale_bytes), count, 4 * seed + 1)),
            "slot_mapping": contiguous("int64", mapping),
            "cache": draw(caches(shape, 4 * seed + 2)),
            "entries": shape.entries,
            "interleaved": shape.interleaved,
        },
        poison={"data": 4 * seed, "scales": 4 * seed + 1, "cache": 4 * seed + 2},
        events=frozenset(events),
        shaped_for=launched,
    )


def explain(a: Arguments, access: Access, at: Mapping[str, int]) -> str:
    """Which record of which token a byte is for."""
    slot = int(a.slot_mapping[at["t"]])
    part = "data" if "data" in access.words else "scale"
    return (
        f"byte {at['byte']} of the {part} record of token {at['t']} (block {slot // a.entries}, "
        f"place {slot % a.entries})"
    )


register_property(
    KernelProperty(
        kernel="page_append",
        words="each token's records lie at its place in its block's page, and no other byte changes",
        cases=cases,
        needs=Needs(
            cases=100,
            events={
                "interleaved": 20,
                "data then scales": 20,
                "padded page": 10,
                "padded token": 10,
                "stale slot": 10,
                "later entry": 10,
                "later page": 10,
                SEVERAL_ROWS: 4,
            },
        ),
        explain=explain,
        system="schema",
    )
)
