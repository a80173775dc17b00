"""Contracts of index writers that say which cells of each slice are written, and of their rows only the range.

They need no layout of the pool, so they also hold before its rows had one numbering: each cell of a live token's
part is written, by one program, once; no other cell changes; no access leaves an argument. A cell that was not
written keeps its poison, which is hardly ever a row in range.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kvproof.models.contract import Access, Approximate, Arguments, Clause, Contract, Index, Scalar, Tensor
from kvproof.models.index import Condition, IndexValue, maximum, minimum, within

TOKEN = Index("t", stop=lambda a: a.T)
PLACE = Index("i", stop=lambda a, _t: a.win)
GROUP = Index("k", stop=lambda a, _t: a.most_groups)
HCA = 128
SOURCE = "ROCm/ATOM, atom/model_ops/v4_kernels: which part of a slice is whose"


def _between(low: IndexValue, stop: IndexValue, indices: tuple[Any, ...]) -> Approximate:
    middle = np.full(np.shape(indices[0]), (low + stop - 1) / 2)
    return Approximate(
        middle,
        np.full(middle.shape, (stop - 1 - low) / 2),
        decode=lambda cells: cells.astype(np.float64),
        encode=lambda values: values.astype(np.int32),
    )


def _window_row(a: Arguments, *indices: Any) -> Approximate:
    """Windows come first in the pool of these eras."""
    return _between(0, a.window_rows, indices)


def _compressed_row(a: Arguments, *indices: Any) -> Approximate:
    return _between(a.window_rows, a.rows, indices)


def _indptr(name: str) -> Tensor:
    return Tensor(f"{name}_indptr", "int32", ("bounds",), f"first cell of each token's part of {name}_indices")


def _indices(name: str) -> Tensor:
    return Tensor(f"{name}_indices", "int32", (f"n_{name}",), "rows to attend to", role="inout")


_TOKENS = (
    Tensor("positions", "int32", ("T",), "position of each token"),
    Tensor("sequences", "int32", ("T",), "sequence of each token, -1 of a padded one"),
    Tensor("slots", "int32", ("bs",), "state slot of each sequence"),
    Tensor("block_tables", "int32", ("bs", "columns"), "physical block of each block of a sequence"),
)
_ROWS = (
    Scalar("window_rows", "rows of windows, which come first in the pool"),
    Scalar("rows", "rows of the pool, at most"),
)
_COVERED = Clause(
    "table",
    "a sequence's block table reaches as far as its positions",
    lambda a, t: a.positions[t] < a.columns * a.block_size,
    over=(TOKEN,),
)


def window_count(pos: IndexValue, win: IndexValue) -> IndexValue:
    """Window positions of a decode token: its own, and what is left of the window before it."""
    return minimum(pos + 1, win)


# ---- decode: the window at the tail ------------------------------------------------------


def _live(a: Arguments, t: IndexValue) -> Condition:
    return a.sequences[t] >= 0


def _decode(name: str) -> Access:
    def when(a: Arguments, t: IndexValue, i: IndexValue) -> Condition:
        return _live(a, t) & (i < window_count(a.positions[t], a.win))

    def cell(a: Arguments, t: IndexValue, i: IndexValue) -> tuple[IndexValue]:
        return (getattr(a, f"{name}_indptr")[t + 1] - window_count(a.positions[t], a.win) + i,)

    words = f"the last min(pos + 1, win) cells of each live token's {name} slice"
    return Access(f"{name}_indices", "must", (TOKEN, PLACE), when, cell, words, bound=_window_row)


DECODE_CLASSES = ("swa", "csa", "hca")

DECODE_SLICES = Contract(
    name="decode slices",
    summary="The window part of every decode token's slices is filled, and nothing else is.",
    arguments=(
        *_TOKENS,
        *(_indptr(name) for name in DECODE_CLASSES),
        *(_indices(name) for name in DECODE_CLASSES),
        Scalar("win", "window"),
        Scalar("ring", "positions of a ring"),
        Scalar("block_size", "tokens of a block"),
        *_ROWS,
    ),
    requires=(_COVERED,),
    tolerates=(),
    accesses=tuple(_decode(name) for name in DECODE_CLASSES),
    ordering=(),
    source=SOURCE,
)


# ---- prefill ------------------------------------------------------------------------------


def _start(a: Arguments, t: IndexValue) -> IndexValue:
    return a.chunk_start[a.sequences[t]]


def _extend_low(a: Arguments, t: IndexValue) -> IndexValue:
    return maximum(a.positions[t] - a.win + 1, _start(a, t))


def before_chunk(a: Arguments, t: IndexValue) -> IndexValue:
    """Window positions of a token that lie before its chunk."""
    return maximum(_start(a, t) - maximum(a.positions[t] - a.win + 1, 0), 0)


def visible_groups(a: Arguments, t: IndexValue) -> IndexValue:
    """HCA groups that are complete at a token."""
    return minimum((a.positions[t] + 1) // HCA, a.committed[a.sequences[t]])


def _prefix(name: str, *, tail: bool) -> Access:
    def cell(a: Arguments, t: IndexValue, i: IndexValue) -> tuple[IndexValue]:
        bounds: Any = getattr(a, f"{name}_indptr")
        return ((bounds[t + 1] - before_chunk(a, t) if tail else bounds[t]) + i,)

    return Access(
        f"{name}_indices",
        "must",
        (TOKEN, PLACE),
        lambda a, t, i: i < before_chunk(a, t),
        cell,
        f"the {'last' if tail else 'first'} cells of each {name} slice, one for each position before the chunk",
        bound=_window_row,
    )


PREFILL_CLASSES = ("prefix_swa", "prefix_csa", "prefix_hca")

PREFILL_SLICES = Contract(
    name="prefill slices",
    summary="In-chunk rows, the window before the chunk, and complete groups fill their parts, and nothing else.",
    arguments=(
        *_TOKENS,
        Tensor("chunk_start", "int32", ("bs",), "first position of each sequence's chunk"),
        Tensor("first_row", "int32", ("bs",), "its first row in this forward's kv"),
        Tensor("committed", "int32", ("bs",), "complete HCA groups of each sequence"),
        *(_indptr(name) for name in ("extend", *PREFILL_CLASSES)),
        *(_indices(name) for name in ("extend", *PREFILL_CLASSES)),
        Scalar("win", "window"),
        Scalar("ring", "positions of a ring"),
        Scalar("block_size", "tokens of a block"),
        Scalar("most_groups", "groups of a token, at most"),
        *_ROWS,
    ),
    requires=(_COVERED,),
    tolerates=(),
    accesses=(
        Access(
            "extend_indices",
            "must",
            (TOKEN, PLACE),
            lambda a, t, i: _extend_low(a, t) + i <= a.positions[t],
            lambda a, t, i: (a.extend_indptr[t] + i,),
            "the rows of each token's in-chunk window positions",
            value=lambda a, t, i: a.first_row[a.sequences[t]] + _extend_low(a, t) + i - _start(a, t),
        ),
        _prefix("prefix_swa", tail=False),
        # The translation of selected entries fills the head.
        _prefix("prefix_csa", tail=True),
        _prefix("prefix_hca", tail=False),
        Access(
            "prefix_hca_indices",
            "must",
            (TOKEN, GROUP),
            lambda a, t, k: k < visible_groups(a, t),
            lambda a, t, k: (a.prefix_hca_indptr[t] + before_chunk(a, t) + k,),
            "then one cell for each group that is complete at the token",
            bound=_compressed_row,
        ),
    ),
    ordering=(),
    source=SOURCE,
)


# ---- the head of a CSA slice ----------------------------------------------------------------


def _head(a: Arguments, t: IndexValue) -> IndexValue:
    return a.csa_indptr[t + 1] - a.csa_indptr[t] - window_count(a.positions[t], a.win)


CSA_SLICES = Contract(
    name="csa slices",
    summary="The selected entries fill the head of every decode token's CSA slice, and nothing else.",
    arguments=(
        *_TOKENS,
        Tensor("entries", "int32", ("T", "topk"), "selected entries of each token"),
        _indptr("csa"),
        _indices("csa"),
        Scalar("win", "window"),
        Scalar("capacity", "entries of a block"),
        *_ROWS,
    ),
    requires=(
        Clause("head", "no more selected than there are", lambda a, t: _head(a, t) <= a.topk, over=(TOKEN,)),
    ),
    tolerates=(),
    accesses=(
        Access(
            "csa_indices",
            "must",
            (TOKEN, Index("k", stop=lambda a, _t: a.topk)),
            lambda a, t, k: _live(a, t) & within(k, 0, _head(a, t)),
            lambda a, t, k: (a.csa_indptr[t] + k,),
            "the cells of each live token's slice that its window leaves, from its start",
            bound=_compressed_row,
        ),
    ),
    ordering=(),
    source=SOURCE,
)

SLICE_CONTRACTS: Mapping[str, Contract] = {
    "decode_slices": DECODE_SLICES,
    "prefill_slices": PREFILL_SLICES,
    "csa_slices": CSA_SLICES,
}
"""By name."""
