"""Slices of keys over a small plane, for attention: few rows listed, everything around them poison."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from kvproof.models.contract import TensorValue, contiguous
from kvproof.models.floats import from_bf16
from kvproof.models.index import INT32_MAX
from kvproof.models.packed_row import FORMATS, NOPE, PACKED_BYTES, ROPE, WIDTH, pack_rows
from kvproof.properties.strategies.draws import rarely, seldom_first, seldom_low
from kvproof.properties.strategies.floats import bf16_rows, filled, guarded, numbers
from kvproof.properties.strategies.tokens import slices, stale_tail

LENGTHS = [0, 1, 2, 5, 33, 64, 65, 130]
"""Entries of a slice: around one tile of 32 or 64 keys, and several."""

HEADS = [1, 2, 16, 17, 65]
"""Heads: of one block of 16 and past it, and past the first block of 64."""
MANY_HEADS, HEAD_BLOCK = 16, 64
"""More heads than the first are taken in blocks of the second."""
SINKS = [0.0, float("-inf"), 2.5, -3.0]
NAN_BITS = 0x7FC0


@dataclass(frozen=True)
class Listed:
    """Entries of some tokens over a plane.

    Attributes:
        entries: the index buffer's contents.
        bounds: first entry of each token, the end of the last, maybe stale ones behind.
        listed: which rows of the plane some token lists.
        events: what these slices show.
    """

    entries: list[int]
    bounds: list[int]
    listed: npt.NDArray[np.bool_]
    events: frozenset[str]


@st.composite
def listings(draw: st.DrawFn, tokens: int, rows: int, seed: int, *, empty: bool = False) -> Listed:
    """Slices of some tokens over a plane of ``rows`` rows, dead entries among them. Shrinks to empty slices."""
    events: set[str] = set()
    options = LENGTHS[:1] if empty else LENGTHS
    lengths = [draw(seldom_first(options)) for _ in range(tokens)]
    bounds = draw(slices(lengths))
    total = bounds[-1]
    # Row 0 is what a masked lane would read, so it is usually listed by none.
    low = draw(seldom_low(0, 1)) if rows > 1 else 0
    entries = draw(row_lists(total, low, rows, seed))
    for at in draw(st.lists(st.integers(0, max(total - 1, 0)), max_size=4)) if total else []:
        entries[at] = draw(dead_entries(rows))
        events.add("dead entry")
    if total and draw(rarely()):
        keep = draw(st.integers(0, total))
        events |= {"short buffer"} if keep < total else set()
        entries = entries[:keep]
    else:
        entries += draw(st.lists(dead_entries(rows), max_size=2))
    listed = np.zeros(rows, bool)
    for first, stop in itertools.pairwise(bounds):
        live = [e for e in entries[first:stop] if 0 <= e < rows]
        listed[live] = True
        events |= {"empty slice"} if not live else set()
        events |= {"several tiles"} if stop - first > 64 else set()
    return Listed(entries, stale_tail(draw, bounds), listed, frozenset(events))


@st.composite
def row_lists(draw: st.DrawFn, count: int, low: int, rows: int, seed: int) -> list[int]:
    """``count`` rows from ``low`` on, in no order, or in order: tiles of a long slice then share no rows."""
    if count <= 8:
        return draw(st.lists(st.integers(low, rows - 1), min_size=count, max_size=count))
    # A draw for every entry would be slow at this length.
    found = [low + int(abs(x) * (rows - low)) for x in numbers(seed, count)]
    return draw(st.sampled_from([found, sorted(found), sorted(found, reverse=True)]))


def dead_entries(rows: int) -> st.SearchStrategy[int]:
    """An entry that lists no row: a sentinel, or one past the plane, as far as 32 bits go."""
    return st.one_of(
        st.just(-1), st.just(rows), st.integers(rows, INT32_MAX), st.integers(-(2**31), -1), st.just(INT32_MAX)
    )


@st.composite
def planes(
    draw: st.DrawFn, listed: npt.NDArray[np.bool_], seed: int, variant: str, *, packed: bool
) -> tuple[TensorValue, TensorValue | None, bool]:
    """(plane, RoPE plane of a packed one, whether a listed row holds a NaN). Rows that no one lists are poison."""
    rows = listed.shape[0]
    bits = draw(bf16_rows(rows, WIDTH, seed, special=False))
    uneven = draw(seldom_first([0, 2, 4]))
    if uneven:
        # A packed row's tiles of 64 columns have a scale each: of tiles of one magnitude they would all be equal.
        steps = np.rint(numbers(seed + 3, rows * WIDTH // 64) * uneven).reshape(rows, WIDTH // 64)
        bits = to_bits(from_bf16(bits) * np.repeat(2.0**steps, 64, axis=1))
    spoiled = bool(listed.any()) and draw(rarely())
    if spoiled:
        row = draw(st.sampled_from([int(r) for r in np.flatnonzero(listed)]))
        bits[row, draw(st.integers(0, WIDTH - 1))] = NAN_BITS
    if not packed:
        plane = draw(guarded("bf16", (rows, WIDTH), seed + 1))
        return filled(plane, np.where(listed[:, None], bits, plane.array)), None, spoiled
    plane = draw(guarded("uint8", (rows, PACKED_BYTES), seed + 1))
    rope = draw(guarded("bf16", (rows, ROPE), seed + 2))
    codes = pack_rows(from_bf16(bits[:, :NOPE]), FORMATS[variant])
    return (
        filled(plane, np.where(listed[:, None], codes, plane.array)),
        filled(rope, np.where(listed[:, None], bits[:, NOPE:], rope.array)),
        spoiled,
    )


@st.composite
def queries(draw: st.DrawFn, tokens: int, seed: int) -> dict[str, Any]:
    """Queries of some tokens and heads, sinks, scale and split count; and the result's buffer."""
    heads = draw(seldom_first(HEADS))
    loud = 2.0 ** draw(seldom_low(0, 4))
    q = draw(guarded("bf16", (tokens, heads, WIDTH), seed))
    ordinary = numbers(seed, tokens * heads * WIDTH).reshape(tokens, heads, WIDTH) * loud
    # Of many heads the sinks repeat, in a period that is none of blocks of heads.
    sinks = draw(st.lists(st.sampled_from(SINKS), min_size=min(heads, 17), max_size=min(heads, 17)))
    sinks = [sinks[head % len(sinks)] for head in range(heads)]
    return {
        "q": filled(q, to_bits(ordinary)),
        "attn_sink": contiguous("fp32", sinks),
        "scale": draw(st.sampled_from([WIDTH**-0.5, 0.125])),
        "out": draw(guarded("bf16", (tokens, heads, WIDTH), seed + 1)),
        "splits": draw(seldom_first([0, 2, 3, 8])),
    }


def head_events(heads: int, *, packed: bool, listed: bool) -> frozenset[str]:
    """What a launch over some listed rows shows of blocks of heads."""
    found = {
        "many heads": heads > MANY_HEADS,
        "many heads, packed": heads > MANY_HEADS and packed,
        "second block of heads": heads > HEAD_BLOCK,
    }
    return frozenset(name for name, happened in found.items() if happened and listed)


def to_bits(values: npt.NDArray[np.float64]) -> npt.NDArray[np.uint16]:
    """bf16 bit patterns, truncated: any number near these will do, and truncating is fast."""
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
