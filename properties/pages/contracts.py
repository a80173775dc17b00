"""Contracts of the packed cache: writing and reading its pages, turning entries into slots, state pages.

Facts are from the public vLLM wheel (``models/deepseek_v4/common/ops``); the page itself is
:mod:`kvproof.models.packed_row.page`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kvproof.models.contract import Access, Arguments, Clause, Contract, Index, Scalar, Tensor, Tolerance
from kvproof.models.floats import from_bf16, to_bf16
from kvproof.models.index import INT32_MAX, Condition, IndexValue, maximum, minimum, within
from kvproof.models.packed_row import E4M3_OCP, NOPE, WIDTH
from kvproof.models.packed_row.page import DATA_BYTES, SCALE_BYTES, page_records, page_row
from kvproof.models.schema import PageLayout

SOURCE = "vLLM 0.33, models/deepseek_v4/common/ops"
TOKEN = Index("t", stop=lambda a: a.T)
OTHER = Index("u", low=lambda _a, t: t + 1, stop=lambda a, _t: a.T)


def page(a: Arguments) -> PageLayout:
    """The layout of one page of the cache."""
    return PageLayout(a.block_size, DATA_BYTES, SCALE_BYTES, interleaved=False, stride=a.page_bytes)


def _holds(a: Arguments) -> Condition:
    return within(a.block_size, 1, INT32_MAX + 1) & (a.page_bytes >= a.block_size * (DATA_BYTES + SCALE_BYTES))


def _known(a: Arguments, t: IndexValue) -> Condition:
    return within(a.slot_mapping[t], 0, a.blocks * a.block_size)


def _apart(a: Arguments, t: IndexValue, u: IndexValue) -> Condition:
    slot = a.slot_mapping[t]
    return (slot < 0) | (slot != a.slot_mapping[u])


# ---- writing a page -------------------------------------------------------------------


def _records(a: Any, t: Any) -> tuple[Any, Any]:
    rows = a.k[t]
    return page_records(from_bf16(rows[:, :NOPE]), rows[:, NOPE:], E4M3_OCP)


def _byte(count: int) -> Index:
    return Index("byte", stop=lambda _a, _t: count)


PAGE_INSERT = Contract(
    name="quantize_and_insert_k_cache",
    summary="Packs each token's row and writes its data and scale record to its place in its block's page.",
    arguments=(
        Tensor("k", "bf16", ("K", WIDTH), "rows: 448 NoPE elements, then 64 RoPE elements"),
        Tensor("k_cache", "uint8", ("blocks", "page_bytes"), "pages, evenly apart", role="inout", strides="rows"),
        Tensor("slot_mapping", "int64", ("T",), "cache slot of each token: block * block_size + place"),
        Scalar("block_size", "entries of a page"),
    ),
    requires=(
        Clause("rows", "every token has a row", lambda a: a.K >= a.T),
        Clause("page", "a page holds its entries' records", _holds),
        Clause("distinct", "no two tokens have one slot", _apart, (TOKEN, OTHER)),
    ),
    tolerates=(
        Tolerance("padded token", "a negative slot: nothing is written"),
        Tolerance("stale slot", "a slot past the cache: nothing is written"),
    ),
    accesses=(
        Access(
            "k_cache",
            "must",
            (TOKEN, _byte(DATA_BYTES)),
            when=lambda a, t, _byte: _known(a, t),
            cell=lambda a, t, byte: _cell(a, t, page(a).data_offset(0, a.slot_mapping[t] % a.block_size) + byte),
            words="the data record of each token",
            value=lambda a, t, byte: _of_token(_records(a, np.arange(a.T))[0], t, byte),
        ),
        Access(
            "k_cache",
            "must",
            (TOKEN, _byte(SCALE_BYTES)),
            when=lambda a, t, _byte: _known(a, t),
            cell=lambda a, t, byte: _cell(a, t, page(a).scale_offset(0, a.slot_mapping[t] % a.block_size) + byte),
            words="the scale record of each token",
            value=lambda a, t, byte: _of_token(_records(a, np.arange(a.T))[1], t, byte),
        ),
    ),
    source=SOURCE,
)


def _cell(a: Arguments, t: IndexValue, at: IndexValue) -> tuple[IndexValue, IndexValue]:
    return a.slot_mapping[t] // a.block_size, at


def _of_token(records: Any, t: Any, byte: Any) -> Any:
    return records[t, byte]


# ---- reading pages ----------------------------------------------------------------------

REQUEST = Index("b", stop=lambda a: a.B)


def _gathered(a: Arguments, b: IndexValue) -> IndexValue:
    return a.seq_lens[b] if a.gather_lens is None else a.gather_lens[b]


GATHERED = Index("i", stop=_gathered)


def _read(a: Any, b: Any, i: Any) -> Any:
    pos = a.seq_lens[b] - _gathered(a, b) + i
    block, place = a.block_table[b, pos // a.block_size], pos % a.block_size
    layout = page(a)
    data = a.k_cache[block[:, None], layout.data_offset(0, place)[:, None] + np.arange(DATA_BYTES)]
    scales = a.k_cache[block[:, None], layout.scale_offset(0, place)[:, None] + np.arange(SCALE_BYTES)]
    nope, rope = page_row(data, scales, E4M3_OCP)
    return np.concatenate([to_bf16(nope), rope], axis=1)


PAGE_READ = Contract(
    name="dequantize_and_gather_k_cache",
    summary="Unpacks the last positions of each sequence, oldest first.",
    arguments=(
        Tensor("out", "bf16", ("B", "places", WIDTH), "rows of each sequence", role="inout", strides="rows"),
        Tensor("k_cache", "uint8", ("blocks", "page_bytes"), "pages", strides="rows"),
        Tensor("seq_lens", "int32", ("B",), "positions of each sequence"),
        Tensor("gather_lens", "int32", ("B",), "positions read of each; all of them if absent", optional=True),
        Tensor("block_table", "int32", ("B", "columns"), "physical blocks of each sequence"),
        Scalar("block_size", "entries of a page"),
        Scalar("offset", "place of the first row in out"),
    ),
    requires=(
        Clause("page", "a page holds its entries' records", _holds),
        Clause("offset", "the first place is none before the buffer", lambda a: a.offset >= 0),
        Clause(
            "lengths",
            "a sequence's read positions exist, fit its block table, and fit the buffer",
            lambda a, b: (
                within(_gathered(a, b), 0, a.seq_lens[b] + 1)
                & (a.seq_lens[b] <= a.columns * a.block_size)
                & (a.offset + _gathered(a, b) <= a.places)
            ),
            over=(REQUEST,),
        ),
        Clause(
            "blocks",
            "every read position has a block",
            lambda a, b, i: within(
                a.block_table[b, (a.seq_lens[b] - _gathered(a, b) + i) // a.block_size], 0, a.blocks
            ),
            over=(REQUEST, GATHERED),
        ),
    ),
    tolerates=(Tolerance("stale table", "ids of blocks that no read position is in do not matter"),),
    accesses=(
        Access(
            "out",
            "must",
            (REQUEST, GATHERED),
            when=lambda _a, _b, _i: True,
            cell=lambda a, b, i: (b, a.offset + i),
            words="the row of each read position",
            value=_read,
        ),
    ),
    source=SOURCE,
)

# ---- entries to slots -------------------------------------------------------------------

PLACE = Index("k", stop=lambda a, _t: a.topk)


def _slot(a: Any, t: Any, k: Any) -> Any:
    entry = a.topk_indices[t, k]
    known = within(entry, 0, a.columns * a.block_size)
    column = np.where(known, entry, 0) // a.block_size
    block = a.block_table[a.token_to_req_indices[t], column]
    return np.where(known, block * a.block_size + entry % a.block_size, -1)


GLOBAL_TOPK = Contract(
    name="compute_global_topk_indices_and_lens",
    summary="Turns each token's selected entries into cache slots, and counts them.",
    arguments=(
        Tensor("topk_indices", "int32", ("T", "topk"), "entries of the token's sequence; -1 for none"),
        Tensor("token_to_req_indices", "int32", ("T",), "sequence of each token"),
        Tensor("block_table", "int32", ("bs", "columns"), "physical blocks of each sequence"),
        Scalar("block_size", "entries of a block"),
        Tensor("is_valid_token", "uint8", ("T",), "0 for a padded token"),
        Tensor("slots", "int32", ("T", "topk"), "cache slot of each entry", role="out"),
        Tensor("lens", "int32", ("T",), "entries of each token", role="out"),
    ),
    requires=(
        Clause("sizes", "there is an entry and a block", lambda a: (a.topk >= 1) & (a.block_size >= 1)),
        Clause(
            "sequences",
            "every token has a sequence",
            lambda a, t: within(a.token_to_req_indices[t], 0, a.bs),
            (TOKEN,),
        ),
        Clause(
            "entries",
            "an entry is -1 or lies in its sequence's block table",
            lambda a, t, k: within(a.topk_indices[t, k], -1, a.columns * a.block_size),
            (TOKEN, PLACE),
        ),
    ),
    tolerates=(),
    accesses=(
        Access(
            "slots",
            "must",
            (TOKEN, PLACE),
            when=lambda _a, _t, _k: True,
            cell=lambda _a, t, k: (t, k),
            words="the slot of each entry, -1 of none",
            value=_slot,
        ),
        Access(
            "lens",
            "must",
            (TOKEN,),
            when=lambda _a, _t: True,
            cell=lambda _a, t: (t,),
            words="entries of a valid token, 0 of a padded one",
            value=lambda a, t: np.where(a.is_valid_token[t] != 0, (a.topk_indices[t] >= 0).sum(axis=1), 0),
        ),
    ),
    source=SOURCE,
)

# ---- entries and window together ----------------------------------------------------------

SEQUENCE = Index("b", stop=lambda a: a.bs)
QUERY = Index(
    "t",
    low=lambda a, b: a.query_start_loc[b] - a.query_start_loc[0],
    stop=lambda a, b: a.query_start_loc[b + 1] - a.query_start_loc[0],
)


def _position(a: Any, b: Any, t: Any) -> Any:
    start, end = a.query_start_loc[b] - a.query_start_loc[0], a.query_start_loc[b + 1] - a.query_start_loc[0]
    return a.seq_lens[b] - (end - start) + (t - start)


def _heads(a: Any, b: Any, t: Any) -> Any:
    return minimum((_position(a, b, t) + 1) // a.compress_ratio, a.topk)


def _window(a: Any, b: Any, t: Any) -> Any:
    pos = _position(a, b, t)
    return pos - maximum(pos - a.window_size + 1, 0) + 1


def _combined(a: Any, b: Any, t: Any) -> Any:
    """Whole rows of the combined indices, one a token."""
    heads, window, pos = _heads(a, b, t), _window(a, b, t), _position(a, b, t)
    rows = np.full((len(t), a.width), -1, np.int64)
    for n in range(len(t)):
        head, tail = int(heads[n]), int(window[n])
        base = a.M * b[n]
        rows[n, :head] = base + a.topk_indices[t[n], :head]
        first = pos[n] - tail + 1 - (a.seq_lens[b[n]] - a.gather_lens[b[n]])
        rows[n, head : head + tail] = base + a.N + first + np.arange(tail)
    return rows


COMBINE = Contract(
    name="combine_topk_swa_indices",
    summary="Puts each query's selected entries and window positions into one row of gathered places.",
    arguments=(
        Tensor("topk_indices", "int32", ("T", "selected"), "entries of the token's sequence"),
        Tensor("query_start_loc", "int32", ("bs1",), "first token of each sequence, counted from anywhere"),
        Tensor("seq_lens", "int32", ("bs",), "positions of each sequence after this forward"),
        Tensor("gather_lens", "int32", ("bs",), "window positions that were gathered of each"),
        Scalar("window_size", "window in positions"),
        Scalar("compress_ratio", "positions of an entry"),
        Scalar("topk", "entries of a query, at most"),
        Scalar("M", "gathered places of a sequence"),
        Scalar("N", "places of its entries, before those of its window"),
        Tensor("combined", "int32", ("T", "width"), "places to attend to", role="out"),
        Tensor("lens", "int32", ("T",), "how many of them", role="out"),
    ),
    requires=(
        Clause("ends", "every sequence has an end", lambda a: a.bs1 == a.bs + 1),
        Clause(
            "tokens", "sequences cover the tokens", lambda a: a.query_start_loc[a.bs] - a.query_start_loc[0] == a.T
        ),
        Clause(
            "order",
            "query_start_loc never falls, and a sequence is as long as its queries",
            lambda a, b: (
                (a.query_start_loc[b] <= a.query_start_loc[b + 1])
                & (a.seq_lens[b] >= a.query_start_loc[b + 1] - a.query_start_loc[b])
            ),
            (SEQUENCE,),
        ),
        Clause(
            "width",
            "a row holds all entries and the window",
            lambda a: (a.width >= a.topk + a.window_size) & (a.topk <= a.selected) & (a.compress_ratio >= 1),
        ),
    ),
    tolerates=(),
    accesses=(
        Access(
            "combined",
            "must",
            (SEQUENCE, QUERY),
            when=lambda _a, _b, _t: True,
            cell=lambda _a, _b, t: (t,),
            words="entries, then window places, then -1",
            value=_combined,
        ),
        Access(
            "lens",
            "must",
            (SEQUENCE, QUERY),
            when=lambda _a, _b, _t: True,
            cell=lambda _a, _b, t: (t,),
            words="entries and window places of each query",
            value=lambda a, b, t: _heads(a, b, t) + _window(a, b, t),
        ),
    ),
    source=SOURCE,
)

# ---- state pages ------------------------------------------------------------------------

PARTIAL_STATES = Contract(
    name="save_partial_states",
    summary="Writes each token's kv and its score plus the score term of its place to its state page.",
    arguments=(
        Tensor("kv", "fp32", ("K", "dim"), "kv rows", strides="rows"),
        Tensor("score", "fp32", ("K", "dim"), "score rows", strides="rows"),
        Tensor("ape", "fp32", ("ratio", "dim"), "score term of each place in a group"),
        Tensor("positions", "int64", ("T",), "absolute position of each token"),
        Tensor(
            "state_cache", "fp32", ("blocks", "block_size", "both"), "state pages", role="inout", strides="rows"
        ),
        Tensor("slot_mapping", "int64", ("T",), "state slot of each token: block * block_size + place"),
    ),
    requires=(
        Clause("rows", "every token has a row", lambda a: a.K >= a.T),
        Clause("width", "a place holds kv and score", lambda a: (a.both == 2 * a.dim) & (a.ratio >= 1)),
        Clause("distinct", "no two tokens have one slot", _apart, (TOKEN, OTHER)),
        Clause("positions", "no position is negative", lambda a, t: a.positions[t] >= 0, (TOKEN,)),
    ),
    tolerates=(
        Tolerance("padded token", "a negative slot: nothing is written"),
        Tolerance("stale slot", "a slot past the cache: nothing is written"),
    ),
    accesses=(
        Access(
            "state_cache",
            "must",
            (TOKEN,),
            when=_known,
            cell=lambda a, t: (a.slot_mapping[t] // a.block_size, a.slot_mapping[t] % a.block_size),
            words="kv, then score plus its term, of each token",
            value=lambda a, t: np.concatenate([a.kv[t], a.score[t] + a.ape[a.positions[t] % a.ratio]], axis=1),
        ),
    ),
    source=SOURCE,
)

PAGE_CONTRACTS: Mapping[str, Contract] = {
    "page_insert": PAGE_INSERT,
    "page_read": PAGE_READ,
    "global_topk": GLOBAL_TOPK,
    "combine_topk_window": COMBINE,
    "partial_states": PARTIAL_STATES,
}
"""By the name that a profile uses."""
