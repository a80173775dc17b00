"""Cases of the layout-free slice contracts: a few sequences, their windows around a ring's end, padded tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from kvproof.models.contract import Access, Arguments, TensorValue, contiguous
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.properties.slices.contracts import DECODE_CLASSES, HCA
from kvproof.properties.statement import Needs
from kvproof.properties.strategies.cases import Case, KernelProperty, poison
from kvproof.properties.strategies.draws import rarely, seldom_low

ROWS = 2**20
"""Rows are below this; poison is not, but for one cell in 4,096."""


MOST_RING = 12
"""Positions of a ring, at most."""


@dataclass(frozen=True)
class Forward:
    """Tokens of one forward. ``sequences`` has -1 for padding."""

    positions: list[int]
    sequences: list[int]
    starts: list[int]
    rows: list[int]


@st.composite
def forwards(draw: st.DrawFn, win: int, most: int, *, padding: bool) -> Forward:
    """Up to four sequences with consecutive tokens each, some around the ends of windows and groups."""
    positions, sequences, starts, rows = list[int](), list[int](), list[int](), list[int]()
    for sequence in range(draw(seldom_low(1, 4))):
        count = draw(seldom_low(1, most))
        near = draw(st.sampled_from([0, win - 1, win, 2 * win, HCA - 1, HCA, 2 * HCA - 1]))
        start = max(near - draw(st.integers(0, most)), 0)
        starts.append(start)
        rows.append(len(positions))
        positions += range(start, start + count)
        sequences += [sequence] * count
    if padding and draw(rarely()):
        positions += [draw(st.integers(0, 9))]
        sequences += [-1]
    return Forward(positions, sequences, starts, rows)


def _common(draw: st.DrawFn, forward: Forward, block: int) -> dict[str, Any]:
    """Arguments that all three contracts have."""
    count = len(forward.starts)
    columns = max(forward.positions) // block + 1
    blocks = draw(st.permutations(range(count * columns)))
    return {
        "window_rows": max(count * columns * block, (count + 1) * MOST_RING),
        "rows": ROWS,
        "positions": contiguous("int32", forward.positions),
        "sequences": contiguous("int32", forward.sequences),
        "slots": contiguous("int32", draw(st.permutations(range(count + 1)))[:count]),
        "block_tables": contiguous("int32", np.array(blocks).reshape(count, columns), (count, columns)),
    }


def _slices(name: str, lengths: Sequence[int], seed: int) -> dict[str, TensorValue]:
    bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    size = int(bounds[-1]) + 3
    return {
        f"{name}_indptr": contiguous("int32", bounds),
        f"{name}_indices": TensorValue("int32", poison(seed, "int32", size), (size,), (1,)),
    }


@st.composite
def _decode(draw: st.DrawFn, _subject: ModelConfig | None) -> Case:
    win, block, seed = draw(seldom_low(1, 9)), draw(st.sampled_from([4, 16, 64])), draw(st.integers(0, 2**16))
    forward = draw(forwards(win, 3, padding=True))
    values = _common(draw, forward, block)
    window = [min(p + 1, win) if s >= 0 else 0 for p, s in zip(forward.positions, forward.sequences, strict=True)]
    seeds: dict[str, int] = {}
    for number, name in enumerate(DECODE_CLASSES):
        heads = [draw(seldom_low(0, 3)) if number and n else 0 for n in window]
        values |= _slices(name, [n + head for n, head in zip(window, heads, strict=True)], 3 * seed + number)
        seeds[f"{name}_indices"] = 3 * seed + number
    values |= {"win": win, "ring": win + draw(seldom_low(0, 3)), "block_size": block}
    return Case(values, seeds, _events(forward))


@st.composite
def _prefill(draw: st.DrawFn, _subject: ModelConfig | None) -> Case:
    win, block, seed = draw(seldom_low(1, 9)), draw(st.sampled_from([64, 128])), draw(st.integers(0, 2**16))
    forward = draw(forwards(win, 6, padding=False))
    values = _common(draw, forward, block)
    ends = dict(zip(forward.sequences, forward.positions, strict=True))  # of each sequence the last
    committed = [(ends[sequence] + 1) // HCA for sequence in range(len(forward.starts))]
    inside, before, groups = list[int](), list[int](), list[int]()
    for pos, sequence in zip(forward.positions, forward.sequences, strict=True):
        start, low = forward.starts[sequence], max(pos - win + 1, 0)
        inside.append(pos - max(low, start) + 1)
        before.append(max(start - low, 0))
        groups.append(min((pos + 1) // HCA, committed[sequence]))
    heads = [draw(seldom_low(0, 3)) for _ in before]
    lengths = {
        "extend": inside,
        "prefix_swa": before,
        "prefix_csa": [n + head for n, head in zip(before, heads, strict=True)],
        "prefix_hca": [n + group for n, group in zip(before, groups, strict=True)],
    }
    seeds: dict[str, int] = {}
    for number, (name, sizes) in enumerate(lengths.items()):
        values |= _slices(name, sizes, 4 * seed + number)
        seeds[f"{name}_indices"] = 4 * seed + number
    ring = win + draw(seldom_low(0, 3))
    values |= {
        "chunk_start": contiguous("int32", forward.starts),
        "first_row": contiguous("int32", forward.rows),
        "committed": contiguous("int32", committed),
        "win": win,
        "ring": ring,
        "block_size": block,
        "most_groups": max(groups),
    }
    events = _events(forward) | ({"groups"} if any(groups) else set())
    return Case(values, seeds, events | ({"earlier chunk"} if any(before) else set()))


@st.composite
def _csa(draw: st.DrawFn, _subject: ModelConfig | None) -> Case:
    win, capacity, topk = draw(seldom_low(1, 9)), draw(seldom_low(1, 8)), draw(seldom_low(1, 5))
    seed = draw(st.integers(0, 2**16))
    forward = draw(forwards(win, 3, padding=True))
    values = _common(draw, forward, 4 * capacity)
    lengths, entries = list[int](), list[list[int]]()
    for pos, sequence in zip(forward.positions, forward.sequences, strict=True):
        complete = (pos + 1) // 4
        head = draw(seldom_low(0, min(topk, complete))) if complete and sequence >= 0 else 0
        lengths.append(min(pos + 1, win) + head if sequence >= 0 else 0)
        entries.append([draw(st.integers(0, complete - 1)) if k < head else 2**31 - 1 for k in range(topk)])
    values |= _slices("csa", lengths, seed)
    values |= {
        "entries": contiguous("int32", entries, (len(entries), topk)),
        "win": win,
        "capacity": capacity,
    }
    return Case(values, {"csa_indices": seed}, _events(forward))


def _events(forward: Forward) -> frozenset[str]:
    events = {"several sequences"} if len(forward.starts) > 1 else set[str]()
    return frozenset(events | ({"padded token"} if -1 in forward.sequences else set()))


def explain(a: Arguments, access: Access, at: Mapping[str, int]) -> str:
    """Which token a cell is for."""
    t = at["t"]
    which = ", ".join(f"{name} {value}" for name, value in at.items() if name != "t")
    return f"{access.words}: {which} of token {t} (sequence {int(a.sequences[t])}, position {int(a.positions[t])})"


def _property(name: str, words: str, cases: Callable[..., Any], events: Mapping[str, int]) -> KernelProperty:
    return KernelProperty(name, words, cases, Needs(60, dict(events)), explain)


SLICE_PROPERTIES: Mapping[str, KernelProperty] = {
    item.kernel: item
    for item in (
        _property(
            "decode_slices",
            "the window part of each live token's slices is filled, once, and no other cell changes",
            _decode,
            {"several sequences": 10, "padded token": 5},
        ),
        _property(
            "prefill_slices",
            "each token's in-chunk, earlier and group cells are filled, once, and no other cell changes",
            _prefill,
            {"several sequences": 10, "earlier chunk": 10, "groups": 10},
        ),
        _property(
            "csa_slices",
            "the head of each live token's CSA slice is filled, once, and no other cell changes",
            _csa,
            {"several sequences": 10, "padded token": 5},
        ),
    )
}
"""By the contract's name."""
