"""Tokens as the index builders see them: a sequence id and a position each, padded ones among them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from kvproof.models.contract import TensorValue
from kvproof.models.index import INT32_MAX
from kvproof.models.row_space import CSA_RATIO, HCA_RATIO, UnifiedPoolGeometry
from kvproof.properties.strategies.batches import STALE, stale_slots
from kvproof.properties.strategies.cases import poison
from kvproof.properties.strategies.draws import mostly, rarely, seldom_low
from kvproof.properties.strategies.geometry import geometry_from_json, geometry_json

MAX_SEQUENCES = 4

PerToken = Callable[[st.DrawFn, int, bool], Any]
"""Draws what else a case needs of one token, from its position and whether it is live."""


def nothing(_draw: st.DrawFn, _pos: int, _live: bool) -> None:
    """A token of which nothing else is needed."""


PLACES = st.integers(0, 63)


def taken(draw: st.DrawFn, values: Iterable[int], size: int) -> list[int]:
    """Up to ``size`` different values, in no order. Shrinks to the first ones in order.

    Each is one draw of one range however many are left, so that a shorter case shrinks draw by draw.
    """
    left = list(values)
    return [left.pop(draw(PLACES) % len(left)) for _ in range(min(size, len(left)))]


@dataclass(frozen=True)
class Tokens:
    """The tokens of one forward, sequence after sequence, with padding anywhere.

    Attributes:
        sequence: sequence of each token; outside ``0..len(slots)-1`` for padding.
        positions: position of each token.
        slots: physical slot of each sequence.
        events: what these tokens show.
        extras: what ``per_token`` drew for each token.
    """

    sequence: list[int]
    positions: list[int]
    slots: list[int]
    events: frozenset[str]
    extras: list[Any] = field(default_factory=list[Any])

    def live(self, t: int) -> bool:
        """Whether token ``t`` is one of a sequence's."""
        return 0 <= self.sequence[t] < len(self.slots)


@st.composite
def tokens(
    draw: st.DrawFn,
    geometry: UnifiedPoolGeometry,
    *,
    wide: bool,
    most_queries: int = 3,
    sequences: int | None = None,
    behind: int = 0,
    per_token: PerToken = nothing,
) -> Tokens:
    """A few query tokens of up to four sequences. Shrinks to one token at position 0.

    Args:
        geometry: where slots come from.
        wide: positions may pass 32 bits.
        most_queries: tokens of one sequence at most.
        sequences: how many; by default one to four.
        behind: positions before those at which a sequence's tokens usually begin.
        per_token: draws what else is needed of a token, right after it, so that a token goes as a whole when a
            case shrinks.
    """
    count = draw(seldom_low(1, MAX_SEQUENCES)) if sequences is None else sequences
    free = [geometry.physical_slot(group) for group in range(geometry.num_slots)]
    slots = taken(draw, free, count)
    events: set[str] = set()
    ids: list[int] = []
    positions: list[int] = []
    extras: list[Any] = []
    for sequence in range(count):
        if sequence >= len(slots) or draw(rarely()):
            slot = draw(stale_slots(geometry, frozenset(free)))
            slots = [*slots[:sequence], slot, *slots[sequence + 1 :]]
        queries = draw(seldom_low(0, most_queries))
        first = draw(first_positions(geometry, queries, wide=wide, behind=behind))
        for pos in range(first, first + queries):
            ids.append(sequence)
            positions.append(pos)
            extras.append(per_token(draw, pos, True))
        if queries and not geometry.slot_origin <= slots[sequence] < geometry.slot_positions:
            events.add("stale slot")
        events |= {"negative position"} if queries and first < 0 else set()
        events |= {"second lap"} if queries and first >= geometry.ring_slots else set()
        events |= {"several queries"} if queries > 1 else set()
    padded = draw(seldom_low(0, 2)) if draw(mostly()) else 0
    for _ in range(padded):
        at = draw(st.sampled_from([len(ids), *range(len(ids))]))
        ids.insert(at, draw(st.one_of(st.just(-1), st.integers(count, INT32_MAX), st.integers(-(2**31), -1))))
        positions.insert(at, draw(STALE))
        extras.insert(at, per_token(draw, positions[at], False))
        events.add("padded token")
    events |= {"several sequences"} if len({i for i in ids if 0 <= i < count}) > 1 else set()
    return Tokens(ids, positions, slots, frozenset(events), extras)


@st.composite
def first_positions(
    draw: st.DrawFn, geometry: UnifiedPoolGeometry, queries: int, *, wide: bool, behind: int = 0
) -> int:
    """Position of a sequence's first token: around laps of the ring and ends of groups, or very large."""
    ring = geometry.ring_slots
    ends = [CSA_RATIO - 1, 3 * CSA_RATIO - 1, HCA_RATIO - 1, 2 * HCA_RATIO - 1]
    near = draw(st.sampled_from([0, ring - 1, ring, 2 * ring, *ends]))
    step = draw(st.integers(-2, 2))
    if not draw(rarely()):
        return max(behind + near + step, 0)
    # Below the kernel's arithmetic: a token that came from a stale buffer.
    if draw(rarely()):
        return -1 - draw(st.integers(0, 2**31 - 1))
    limit = 2**63 - 1 if wide else INT32_MAX
    return limit - queries - draw(st.integers(0, 3)) if draw(rarely()) else draw(st.integers(0, 2**20))


def stale_tail(draw: st.DrawFn, values: list[int]) -> list[int]:
    """The values, and behind them what a buffer of a larger batch still holds."""
    return [*values, *draw(st.lists(STALE, min_size=1, max_size=3))] if draw(rarely()) else values


@st.composite
def vast(draw: st.DrawFn, geometry: UnifiedPoolGeometry) -> UnifiedPoolGeometry:
    """The same layout in a plane of nearly 2**31 rows, sometimes: an index builder needs no memory for it."""
    # A plane numbered by another keeps that one's slots.
    if not draw(rarely()) or geometry.slot_origin:
        return geometry
    rows = INT32_MAX - draw(st.integers(0, 2 * geometry.slot_rows))
    return geometry_from_json({**geometry_json(geometry), "plane_rows": rows, "slot_positions": None})


@st.composite
def slices(draw: st.DrawFn, lengths: list[int]) -> list[int]:
    """Bounds of slices of these lengths, one after the other, from a first cell that is seldom 0."""
    bounds = [draw(seldom_low(0, 3))]
    for length in lengths:
        bounds.append(bounds[-1] + length)
    return bounds


@st.composite
def cells(draw: st.DrawFn, count: int, seed: int) -> TensorValue:
    """An int32 buffer of ``count`` poisoned elements, inside a longer storage: a write just outside is seen."""
    guard = draw(seldom_low(0, 3))
    return TensorValue("int32", poison(seed, "int32", count + 2 * guard + 1), (count,), (1,), guard)
