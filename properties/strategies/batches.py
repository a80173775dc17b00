"""Batches of one forward: ragged, padded, speculative, slots in no order, stale values where they occur."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass

from hypothesis import strategies as st

from kvproof.models.index import INT32_MAX
from kvproof.models.row_space import UnifiedPoolGeometry
from kvproof.properties.strategies.draws import rarely, seldom_low

# Hypothesis draws small magnitudes by preference; a large id is what wraps.
STALE = st.one_of(st.integers(-(2**31), INT32_MAX), st.integers(0, 2**30).map(lambda back: INT32_MAX - back))
"""What a buffer holds past its live part: anything."""


STALE_SLOTS = ("past the plane", "largest", "wraps", "below the plane", "sentinel")
"""Kinds of slot that no live sequence has."""


@dataclass(frozen=True)
class Batch:
    """Tokens of some sequences, flat.

    Attributes:
        cu_seqlens: first token of each sequence and the end of the last; may hold stale values after that.
        positions: absolute position of each token; may hold stale values after the last row of kv.
        slots: physical slot of each sequence; negative for a padded one.
        tokens: rows of kv; at least the end of the last sequence.
        events: what this batch shows.
    """

    cu_seqlens: list[int]
    positions: list[int]
    slots: list[int]
    tokens: int
    events: frozenset[str]

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence."""
        bounds = self.cu_seqlens[: len(self.slots) + 1]
        return max((b - a for a, b in itertools.pairwise(bounds)), default=0)


@functools.cache
def _sequences(ring_slots: int) -> st.SearchStrategy[tuple[int, tuple[str, int], int]]:
    """One sequence before it has a slot: (tokens, (kind of stale slot or "", place or step), last position).

    Drawn by itself and in few draws, so that a failing batch shrinks by leaving sequences out.
    """
    own = [("", place) for place in range(8)]
    stale = [(kind, 0) for kind in STALE_SLOTS]
    return st.tuples(
        sequence_lengths(ring_slots),
        st.sampled_from([*own, *stale, *own[1:]]),
        st.one_of(st.integers(-3, INT32_MAX), st.integers(-3, 3 * ring_slots)),
    )


@st.composite
def batches(draw: st.DrawFn, geometry: UnifiedPoolGeometry, *, most: int = 4) -> Batch:
    """A batch of up to ``most`` sequences, each live one in a slot of its own. Shrinks to an empty one."""
    events: set[str] = set()
    sequences = draw(st.lists(_sequences(geometry.ring_slots), max_size=most))
    own = [geometry.physical_slot(group) for group in range(geometry.num_slots)]
    free, used = list(own), list[int]()
    start = draw(seldom_low(0, 2)) if draw(rarely()) else 0
    cu, positions = [start], [draw(STALE) for _ in range(start)]
    for tokens, (stale, place), last in sequences:
        if free and not stale:
            slot = free.pop(place % len(free))
        else:
            slot = stale_slot(geometry, stale, place, frozenset([*own, *used]))
        used.append(slot)
        cu.append(cu[-1] + tokens)
        # Positions below 0 are padding on the left of a short sequence.
        positions += range(last - tokens + 1, last + 1)
        events |= _sequence_events(geometry, slot, tokens, positions[cu[-2] :])
    rows = cu[-1] + (draw(seldom_low(0, 2)) if draw(rarely()) else 0)
    positions += [draw(STALE) for _ in range(rows - cu[-1])]
    if draw(rarely()):
        events.add("stale padding")
        positions += draw(st.lists(STALE, min_size=1, max_size=3))
        cu += draw(st.lists(STALE, max_size=2))
    lengths = {tokens for tokens, _, _ in sequences}
    events |= {"ragged"} if len(lengths) > 1 else set()
    events |= {"several sequences"} if len(sequences) > 1 else set()
    return Batch(cu, positions, used, rows, frozenset(events))


def _sequence_events(geometry: UnifiedPoolGeometry, slot: int, tokens: int, positions: list[int]) -> set[str]:
    found = {
        "empty sequence": tokens == 0,
        "padding slot": tokens > 0 and slot < 0,
        "stale slot": tokens > 0 and (slot >= geometry.slot_positions or 0 <= slot < geometry.slot_origin),
        "negative position": slot >= 0 and any(p < 0 for p in positions),
        "chunk longer than the ring": slot >= 0 and tokens > geometry.ring_slots,
        "second lap": slot >= 0 and any(p >= geometry.ring_slots for p in positions),
        "verify step": slot >= 0 and 1 < tokens <= 8,
    }
    return {name for name, happened in found.items() if happened}


def sequence_lengths(ring_slots: int) -> st.SearchStrategy[int]:
    """Tokens of one sequence: a decode or verify step, a chunk around the ring's length, or none."""
    around = [ring_slots, ring_slots + 1, max(ring_slots - 1, 1), 2 * ring_slots + 1]
    return st.sampled_from([0, *range(1, 9), *around * 3, *[0] * 4, *range(1, 9), *range(1, 9)])


def stale_slot(geometry: UnifiedPoolGeometry, kind: str, step: int, taken: frozenset[int]) -> int:
    """A slot of a kind of :data:`STALE_SLOTS`; -1 if there is none that nobody has."""
    if kind == "past the plane":
        slot = geometry.slot_positions + step
    elif kind == "wraps":
        # slot * slot_rows passes 2**32 by less than a few slots: in 32 bits, a row that belongs to somebody.
        slot = -(-(2**32) // geometry.slot_rows) + geometry.slot_origin + step
    elif kind == "largest":
        slot = INT32_MAX - step
    elif kind == "below the plane":
        slot = geometry.slot_origin - 1 - step
    else:
        slot = -1 - step
    return slot if slot not in taken and slot <= INT32_MAX else -1


@st.composite
def stale_slots(draw: st.DrawFn, geometry: UnifiedPoolGeometry, taken: frozenset[int]) -> int:
    """A slot that no live sequence has, of any kind. Shrinks to the one past the plane."""
    kind, step = draw(st.sampled_from(STALE_SLOTS)), draw(st.integers(0, 3))
    return stale_slot(geometry, kind, step, taken)


@st.composite
def writes_per_batch(draw: st.DrawFn, longest: int, ring_slots: int) -> int:
    """Tokens written of one sequence at most: usually what the longest needs, up to the ring; sometimes fewer."""
    needed = min(longest, ring_slots)
    if needed and draw(rarely()):
        return draw(seldom_low(1, min(ring_slots, 64)))
    return needed
