"""Cases of the packed cache's contracts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st

from kvproof.models.contract import Access, Arguments, TensorValue, contiguous
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.models.floats import to_bf16
from kvproof.models.packed_row import WIDTH
from kvproof.models.packed_row.page import DATA_BYTES, SCALE_BYTES
from kvproof.properties.statement import Needs
from kvproof.properties.strategies.cases import Case, KernelProperty, poison
from kvproof.properties.strategies.draws import rarely, seldom_low


def _finite_rows(count: int, seed: int) -> TensorValue:
    """Rows of bf16 of every magnitude that a KV row may have."""
    random = np.random.Generator(np.random.PCG64(seed))
    values = random.standard_normal((count, WIDTH)) * np.exp2(random.integers(-24, 9, (count, 1)))
    return contiguous("bf16", to_bf16(values), (count, WIDTH))


@st.composite
def _cache(draw: st.DrawFn, seed: int, *, codes: bool = False) -> tuple[TensorValue, int, int]:
    """(pages, blocks, entries of each). With ``codes`` a page's records are such as a packer writes."""
    blocks, entries = draw(seldom_low(1, 4)), draw(seldom_low(1, 5))
    width = entries * (DATA_BYTES + SCALE_BYTES) + draw(st.sampled_from([0, 0, 8, 64]))
    # Pages lie at even distances, or no bf16 of a record would be aligned; one more on each side is a guard.
    stride = width + draw(st.sampled_from([0, 0, 8]))
    storage = poison(seed, "uint8", stride * (blocks + 2))
    value = TensorValue("uint8", storage, (blocks, width), (stride, 1), stride)
    if codes:
        value = TensorValue("uint8", value.storage & 0x7D, value.shape, value.strides, value.offset)  # no NaN code
        # Least and nearly the largest exponent of a scale: 1e-4 / 448, and a magnitude of some thousands.
        scales = value.array[:, entries * DATA_BYTES : entries * (DATA_BYTES + SCALE_BYTES)]
        scales[:] = 105 + scales % 27
    return value, blocks, entries


@st.composite
def _slots(draw: st.DrawFn, slots: int) -> tuple[list[int], set[str]]:
    live = st.integers(0, slots - 1)
    other = st.one_of(st.integers(slots, slots + 2), st.integers(-(2**40), -1))
    mapping = draw(st.lists(st.one_of(live, live, live, other), max_size=6, unique=True))
    events = {"padded token"} if any(slot < 0 for slot in mapping) else set[str]()
    events |= {"stale slot"} if any(slot >= slots for slot in mapping) else set()
    return mapping, events | ({"several tokens"} if len(mapping) > 1 else set())


@st.composite
def _insert(draw: st.DrawFn, _subject: ModelConfig | None) -> Case:
    seed = draw(st.integers(0, 2**16))
    cache, blocks, entries = draw(_cache(seed))
    mapping, events = draw(_slots(blocks * entries))
    spare = draw(seldom_low(0, 2))
    return Case(
        {
            "k": _finite_rows(len(mapping) + spare, seed),
            "k_cache": cache,
            "slot_mapping": contiguous("int64", mapping),
            "block_size": entries,
        },
        {"k_cache": seed},
        frozenset(events | ({"later entry"} if entries > 1 else set())),
    )


@st.composite
def _read(draw: st.DrawFn, _subject: ModelConfig | None) -> Case:
    seed = draw(st.integers(0, 2**16))
    cache, blocks, entries = draw(_cache(seed, codes=True))
    count, columns = draw(seldom_low(1, 3)), draw(seldom_low(1, 3))
    lengths = [draw(st.integers(0, columns * entries)) for _ in range(count)]
    all_of_them = draw(rarely())
    gathered = [length if all_of_them else draw(st.integers(0, length)) for length in lengths]
    table = [[draw(st.integers(0, blocks - 1)) for _ in range(columns)] for _ in range(count)]
    for b, length in enumerate(lengths):
        for column in range(-(-length // entries), columns):
            table[b][column] = draw(st.sampled_from([-1, blocks, 2**31 - 1]))
    offset = draw(seldom_low(0, 2))
    places = offset + max(gathered) + draw(seldom_low(0, 2))
    events = {"several sequences"} if count > 1 else set[str]()
    events |= {"later page"} if any(g and n > entries for g, n in zip(gathered, lengths, strict=True)) else set()
    return Case(
        {
            "out": TensorValue(
                "bf16",
                poison(seed + 1, "bf16", count * places * WIDTH),
                (count, places, WIDTH),
                (places * WIDTH, WIDTH, 1),
            ),
            "k_cache": cache,
            "seq_lens": contiguous("int32", lengths),
            "gather_lens": None if all_of_them else contiguous("int32", gathered),
            "block_table": contiguous("int32", table, (count, columns)),
            "block_size": entries,
            "offset": offset,
        },
        {"out": seed + 1},
        frozenset(events),
    )


@st.composite
def _topk(draw: st.DrawFn, _subject: ModelConfig | None) -> Case:
    tokens, topk, entries = draw(seldom_low(0, 4)), draw(seldom_low(1, 5)), draw(seldom_low(1, 5))
    count, columns = draw(seldom_low(1, 3)), draw(seldom_low(1, 3))
    # Two chosen out of many, so that the shape of a slot id is met at every size.
    ids = st.integers(0, (2**31 - 1 - entries) // entries)
    picked = [[draw(st.integers(-1, columns * entries - 1)) for _ in range(topk)] for _ in range(tokens)]
    events = {"none"} if any(-1 in row for row in picked) else set[str]()
    seed = draw(st.integers(0, 2**16))
    return Case(
        {
            "topk_indices": contiguous("int32", picked, (tokens, topk)),
            "token_to_req_indices": contiguous("int32", [draw(st.integers(0, count - 1)) for _ in range(tokens)]),
            "block_table": contiguous(
                "int32", [[draw(ids) for _ in range(columns)] for _ in range(count)], (count, columns)
            ),
            "block_size": entries,
            "is_valid_token": contiguous("uint8", [draw(st.integers(0, 1)) for _ in range(tokens)]),
            "slots": contiguous("int32", poison(seed, "int32", tokens * topk), (tokens, topk)),
            "lens": contiguous("int32", poison(seed + 1, "int32", tokens)),
        },
        {},
        frozenset(events | ({"several tokens"} if tokens > 1 else set())),
    )


@st.composite
def _combine(draw: st.DrawFn, _subject: ModelConfig | None) -> Case:
    window = 2 ** draw(seldom_low(0, 3))
    ratio, topk = draw(st.sampled_from([1, 2, 4])), draw(seldom_low(0, 4))
    queries = draw(st.lists(seldom_low(0, 4), min_size=1, max_size=3))
    lengths = [q + draw(seldom_low(0, 12)) for q in queries]
    gathered = [
        min(n, q + window - 1) + (draw(seldom_low(0, 1)) if n > q + window else 0)
        for n, q in zip(lengths, queries, strict=True)
    ]
    first = draw(seldom_low(0, 5))
    tokens = sum(queries)
    places = max(topk, 1) + draw(seldom_low(0, 2))
    width = -(-(topk + window) // 128) * 128
    seed = draw(st.integers(0, 2**16))
    events = {"several sequences"} if len(queries) > 1 else set[str]()
    events |= {"rebased"} if first else set()
    return Case(
        {
            "topk_indices": contiguous(
                "int32",
                [[draw(st.integers(0, 9)) for _ in range(places)] for _ in range(tokens)],
                (tokens, places),
            ),
            "query_start_loc": contiguous("int32", first + np.cumsum([0, *queries])),
            "seq_lens": contiguous("int32", lengths),
            "gather_lens": contiguous("int32", gathered),
            "window_size": window,
            "compress_ratio": ratio,
            "topk": topk,
            "M": draw(st.integers(0, 10_000)),
            "N": draw(st.integers(0, 100)),
            "combined": contiguous("int32", poison(seed, "int32", tokens * width), (tokens, width)),
            "lens": contiguous("int32", poison(seed + 1, "int32", tokens)),
        },
        {},
        frozenset(events),
    )


@st.composite
def _states(draw: st.DrawFn, _subject: ModelConfig | None) -> Case:
    seed = draw(st.integers(0, 2**16))
    dim, ratio = draw(seldom_low(1, 9)), draw(st.sampled_from([1, 4, 128]))
    blocks, entries = draw(seldom_low(1, 3)), draw(seldom_low(1, 4))
    mapping, events = draw(_slots(blocks * entries))
    random = np.random.Generator(np.random.PCG64(seed))

    def rows(count: int) -> TensorValue:
        gap = draw(seldom_low(0, 2))
        flat = random.standard_normal(count * (dim + gap) + 1).astype(np.float32)
        return TensorValue("fp32", flat, (count, dim), (dim + gap, 1))

    block = entries * 2 * dim + draw(seldom_low(0, 3))
    cache = TensorValue(
        "fp32", poison(seed + 1, "fp32", blocks * block + 8), (blocks, entries, 2 * dim), (block, 2 * dim, 1), 4
    )
    count = len(mapping) + draw(seldom_low(0, 1))
    return Case(
        {
            "kv": rows(count),
            "score": rows(count),
            "ape": contiguous("fp32", random.standard_normal((ratio, dim)), (ratio, dim)),
            "positions": contiguous("int64", [draw(st.integers(0, 10_000)) for _ in mapping]),
            "state_cache": cache,
            "slot_mapping": contiguous("int64", mapping),
        },
        {"state_cache": seed + 1},
        frozenset(events),
    )


def explain(_a: Arguments, access: Access, at: Mapping[str, int]) -> str:
    """Which token, request or entry a cell is for."""
    return f"{access.words} ({', '.join(f'{name} = {value}' for name, value in at.items())})"


def _property(name: str, words: str, cases: Callable[..., Any], events: Mapping[str, int]) -> KernelProperty:
    return KernelProperty(name, words, cases, Needs(60, dict(events)), explain, system="schema")


PAGE_PROPERTIES: Mapping[str, KernelProperty] = {
    item.kernel: item
    for item in (
        _property(
            "page_insert",
            "each token's packed records lie at its place in its block's page, and no other byte changes",
            _insert,
            {"padded token": 3, "stale slot": 3, "later entry": 10},
        ),
        _property(
            "page_read",
            "each read position's row is unpacked to its place, and no other row changes",
            _read,
            {"several sequences": 5, "later page": 5},
        ),
        _property(
            "global_topk", "each entry's slot and each token's count", _topk, {"none": 5, "several tokens": 5}
        ),
        _property(
            "combine_topk_window",
            "each query's entries, then its window's places, then -1; and how many",
            _combine,
            {"several sequences": 5, "rebased": 5},
        ),
        _property(
            "partial_states",
            "each token's kv and score are in its state slot, and nothing else changes",
            _states,
            {"padded token": 3, "stale slot": 3},
        ),
    )
}
