"""Batches of one forward: ragged, padded, speculative, slots in no order, stale values where they occur."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from hypothesis import strategies as st

from kvproof.models.index import INT32_MAX
from kvproof.models.row_space import UnifiedPoolGeometry
from kvproof.properties.strategies.draws import distinct_from, mostly, rarely, seldom_low

# Hypothesis draws small magnitudes by preference; a large id is what wraps.
STALE = st.one_of(st.integers(-(2**31), INT32_MAX), st.integers(0, 2**30).map(lambda back: INT32_MAX - back))
"""What a buffer holds past its live part: anything."""


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


@st.composite
def batches(draw: st.DrawFn, geometry: UnifiedPoolGeometry, *, most: int = 4) -> Batch:
    """A batch of up to ``most`` sequences, each live one in a slot of its own. Shrinks to an empty one."""
    events: set[str] = set()
    count = draw(seldom_low(0, most))
    free = [geometry.physical_slot(group) for group in range(geometry.num_slots)]
    slots = draw(distinct_from(free, count))
    start = draw(seldom_low(0, 2)) if draw(rarely()) else 0
    cu, positions, used = [start], [draw(STALE) for _ in range(start)], []
    for sequence in range(count):
        tokens = draw(sequence_lengths(geometry.ring_slots))
        slot = slots[sequence] if sequence < len(slots) else -1
        if sequence >= len(slots) or draw(rarely()):
            slot = draw(stale_slots(geometry, frozenset(free) | set(used)))
        used.append(slot)
        positions += draw(token_positions(tokens, geometry.ring_slots, live=slot >= 0))
        cu.append(cu[-1] + tokens)
        events |= _sequence_events(geometry, slot, tokens, positions[cu[-2] :])
    rows = cu[-1] + (draw(seldom_low(0, 2)) if draw(rarely()) else 0)
    positions += [draw(STALE) for _ in range(rows - cu[-1])]
    if draw(rarely()):
        events.add("stale padding")
        positions += draw(st.lists(STALE, min_size=1, max_size=3))
        cu += draw(st.lists(STALE, max_size=2))
    lengths = {b - a for a, b in itertools.pairwise(cu[: count + 1])}
    events |= {"ragged"} if len(lengths) > 1 else set()
    events |= {"several sequences"} if count > 1 else set()
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


@st.composite
def sequence_lengths(draw: st.DrawFn, ring_slots: int) -> int:
    """Tokens of one sequence: a decode or verify step, a chunk around the ring's length, or none."""
    short = st.integers(1, 8)
    around = st.sampled_from([ring_slots, ring_slots + 1, max(ring_slots - 1, 1), 2 * ring_slots + 1])
    if draw(rarely()):
        return 0
    # Long chunks cost an interpreter a program a token, so a real ring is exceeded seldom.
    long = draw(mostly()) if ring_slots <= 16 else draw(rarely())
    return draw(around) if long else draw(short)


@st.composite
def token_positions(draw: st.DrawFn, tokens: int, ring_slots: int, *, live: bool) -> list[int]:
    """Consecutive positions of one sequence; of a padded sequence anything."""
    if not live:
        return [draw(STALE) for _ in range(tokens)]
    if tokens and draw(rarely()):
        # Padding on the left: positions below 0, then the sequence's first ones.
        first = -draw(st.integers(1, tokens))
    else:
        first = draw(
            st.one_of(
                st.integers(0, 3 * ring_slots),
                st.integers(0, 3).map(lambda laps: laps * ring_slots),
                st.integers(0, 2**20),
                st.integers(0, 3).map(lambda back: INT32_MAX - tokens - back),
            )
        )
    return list(range(first, first + tokens))


@st.composite
def stale_slots(draw: st.DrawFn, geometry: UnifiedPoolGeometry, taken: frozenset[int]) -> int:
    """A slot that no live sequence has: a sentinel, one outside the plane, or one whose row wraps in 32 bits."""
    kind = draw(st.sampled_from(["sentinel", "past the plane", "wraps", "largest", "below the plane"]))
    step = draw(st.integers(0, 3))
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
def writes_per_batch(draw: st.DrawFn, longest: int, ring_slots: int) -> int:
    """Tokens written of one sequence at most: usually what the longest needs, up to the ring."""
    needed = min(longest, ring_slots)
    return draw(seldom_low(0, ring_slots)) if draw(rarely()) else needed
