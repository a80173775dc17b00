"""Contract of the prefill index build."""

from __future__ import annotations

from typing import Any

from kvproof.kernels.decode_indices.contract import CLASSES
from kvproof.kernels.index_spec import clamped, live_sequence, serves, window_index
from kvproof.kernels.prefill_indices.spec import (
    extend_low,
    extend_row,
    group_row,
    prefix_count,
    prefix_low,
    visible_groups,
)
from kvproof.models.contract import Access, Arguments, Clause, Contract, Index, Order, Scalar, Tensor, Tolerance
from kvproof.models.index import INT32_MAX, Condition, IndexValue, implies, maximum, within
from kvproof.models.row_space import CSA_RATIO, DENSE_RATIO, HCA_RATIO

TOKEN = Index("t", stop=lambda a: a.T)
PLACE = Index("i", stop=lambda a, _t: a.win)


def served(a: Arguments, ratio: int) -> bool:
    """Whether this launch serves a class."""
    name = CLASSES[ratio]
    return serves(a.geometry, ratio, getattr(a, f"prefix_{name}_indptr"), getattr(a, f"prefix_{name}_indices"))


def _token(ratio: int) -> Index:
    return Index("t", stop=lambda a: a.T if served(a, ratio) else 0)


def _sequence(a: Arguments, t: IndexValue) -> IndexValue:
    return clamped(a.bid_per_token[t], a.bs)


def _live(a: Arguments, t: IndexValue) -> Condition:
    return live_sequence(a.bid_per_token[t], a.bs)


def _bounds(a: Arguments, indptr: str, t: IndexValue) -> tuple[IndexValue, IndexValue]:
    values: Any = getattr(a, indptr)
    # A class that is off has no tokens here, so t holds none.
    return (t, t) if values is None else (values[t], values[t + 1])


def _inside(a: Arguments, name: str, t: IndexValue, cell: IndexValue) -> Condition:
    """Whether a cell lies in its token's slice and in the buffer ``name``_indices."""
    start, end = _bounds(a, f"{name}_indptr", t)
    buffer: Any = getattr(a, f"{name}_indices")
    return (cell >= maximum(start, 0)) & (cell < end) & (cell < (0 if buffer is None else getattr(a, f"n_{name}")))


def _prefix(a: Arguments, t: IndexValue) -> IndexValue:
    return prefix_count(a.positions[t], a.chunk_start_per_seq[_sequence(a, t)], a.win)


def _extend() -> Access:
    def count(a: Arguments, t: IndexValue) -> IndexValue:
        pos = a.positions[t]
        return pos - extend_low(pos, a.chunk_start_per_seq[_sequence(a, t)], a.win) + 1

    def cell(a: Arguments, t: IndexValue, i: IndexValue) -> IndexValue:
        return a.extend_indptr[t] + i

    def value(a: Arguments, t: IndexValue, i: IndexValue) -> IndexValue:
        s = _sequence(a, t)
        start = a.chunk_start_per_seq[s]
        return extend_row(extend_low(a.positions[t], start, a.win) + i, start, a.cu_seqlens_q_per_seq[s], a.T)

    return Access(
        "extend_indices",
        "must",
        (TOKEN, PLACE),
        when=lambda a, t, i: _live(a, t) & (i < count(a, t)) & _inside(a, "extend", t, cell(a, t, i)),
        cell=lambda a, t, i: (cell(a, t, i),),
        words="each live token's extend slice from its start: its window's positions in this chunk",
        value=value,
    )


def _window(ratio: int) -> Access:
    name = f"prefix_{CLASSES[ratio]}"

    def cell(a: Arguments, t: IndexValue, i: IndexValue) -> IndexValue:
        start, end = _bounds(a, f"{name}_indptr", t)
        # CSA keeps its slices' heads for the selected entries.
        return (end - _prefix(a, t) if ratio == CSA_RATIO else start) + i

    def when(a: Arguments, t: IndexValue, i: IndexValue) -> Condition:
        return _live(a, t) & (i < _prefix(a, t)) & _inside(a, name, t, cell(a, t, i))

    def value(a: Arguments, t: IndexValue, i: IndexValue) -> IndexValue:
        slot = a.state_slot_per_seq[_sequence(a, t)]
        return window_index(a.geometry, ratio, slot, prefix_low(a.positions[t], a.win) + i)

    return Access(
        f"{name}_indices",
        "must",
        (_token(ratio), PLACE),
        when=when,
        cell=lambda a, t, i: (cell(a, t, i),),
        words=f"the {'end' if ratio == CSA_RATIO else 'start'} of each live token's {name} slice: "
        "its window's positions before this chunk",
        value=value,
    )


def _groups() -> Access:
    def seen(a: Arguments, t: IndexValue) -> IndexValue:
        return visible_groups(a.positions[t], a.n_committed_hca_per_seq[_sequence(a, t)])

    def cell(a: Arguments, t: IndexValue, k: IndexValue) -> IndexValue:
        return _bounds(a, "prefix_hca_indptr", t)[0] + _prefix(a, t) + k

    # Only as many groups as the slice has cells; the rest are written nowhere.
    group = Index(
        "k",
        stop=lambda a, t: maximum(
            _bounds(a, "prefix_hca_indptr", t)[1] - _bounds(a, "prefix_hca_indptr", t)[0], 0
        ),
    )
    return Access(
        "prefix_hca_indices",
        "must",
        (_token(HCA_RATIO), group),
        when=lambda a, t, k: _live(a, t) & (k < seen(a, t)) & _inside(a, "prefix_hca", t, cell(a, t, k)),
        cell=lambda a, t, k: (cell(a, t, k),),
        words="each live token's prefix_hca slice behind its window: the groups complete at the token",
        value=lambda a, t, k: group_row(a.geometry, a.block_tables, _sequence(a, t), k, a.columns),
    )


def _lengths(a: Arguments) -> Condition:
    holds = (a.n_positions >= a.T) & (a.n_ids >= a.T) & (a.n_extend_indptr >= a.T + 1) & (a.bs >= 1)
    holds = holds & (a.columns >= 1)
    for ratio, name in CLASSES.items():
        if served(a, ratio):
            holds = holds & (getattr(a, f"n_prefix_{name}_indptr") >= a.T + 1)
    return holds


def _order(name: str) -> Clause:
    def follow(a: Arguments, t: IndexValue) -> Condition:
        start, end = _bounds(a, f"{name}_indptr", t)
        return start <= end

    token = Index("t", stop=lambda a: 0 if getattr(a, f"{name}_indptr") is None else a.T)
    return Clause(f"{name} order", f"slices follow one another: {name}_indptr never falls", follow, (token,))


BUFFERS = ("extend", *(f"prefix_{name}" for name in CLASSES.values()))


def _indptr(name: str) -> Tensor:
    return Tensor(
        f"{name}_indptr",
        "int32",
        (f"n_{name}_indptr",),
        f"slices of {name}_indices: first cell of each token's, and the end of the last",
        optional=name != "extend",
    )


def _indices(name: str) -> Tensor:
    meaning = "rows of this forward's kv to attend to" if name == "extend" else "rows of the pool to attend to"
    return Tensor(f"{name}_indices", "int32", (f"n_{name}",), meaning, role="inout", optional=name != "extend")


def _per_sequence(name: str, meaning: str) -> Tensor:
    return Tensor(name, "int32", ("bs",), meaning, longer=True)


CONTRACT = Contract(
    name="write_v4_paged_prefill_indices",
    summary="Writes what every prefill token reads: in-chunk rows, earlier window rows, complete HCA groups.",
    arguments=(
        Tensor("positions", ("int32", "int64"), ("n_positions",), "absolute position of each token"),
        Tensor("bid_per_token", "int32", ("n_ids",), "sequence of each token, -1 of a padded one"),
        Tensor("chunk_start_per_seq", "int32", ("bs",), "first position of each sequence's chunk"),
        _per_sequence("cu_seqlens_q_per_seq", "first row of each sequence in this forward's kv"),
        _per_sequence("state_slot_per_seq", "physical slot of each sequence"),
        _per_sequence("n_committed_hca_per_seq", "HCA groups of each sequence after this forward"),
        Tensor("block_tables", "int32", ("bs", "columns"), "physical blocks of each sequence", "in", "rows", True),
        *(_indptr(name) for name in BUFFERS),
        *(_indices(name) for name in BUFFERS),
        Scalar("T", "tokens, padded ones among them; also the rows of this forward's kv"),
        Scalar("win", "window in tokens"),
        Scalar("geometry", "the pool's row space", kind="UnifiedPoolGeometry"),
        Scalar("hca_ratio", "compress ratio of the HCA class, 128"),
        Scalar("hca_rows_per_block", "HCA groups of a block"),
    ),
    requires=(
        Clause("lengths", "every token has an id, a position and slices, every sequence a block column", _lengths),
        Clause("window", "1 <= win <= ring_slots", lambda a: within(a.win, 1, a.geometry.ring_slots + 1)),
        Clause("plane size", "rows fit 32 bits", lambda a: a.geometry.plane_rows <= INT32_MAX),
        Clause(
            "groups of a block",
            "hca_ratio is 128, and hca_rows_per_block the geometry's block_size div 128",
            lambda a: implies(
                served(a, HCA_RATIO),
                (a.hca_ratio == HCA_RATIO) & (a.hca_rows_per_block == a.geometry.block_size // HCA_RATIO),
            ),
        ),
        *(_order(name) for name in BUFFERS),
    ),
    tolerates=(
        Tolerance("padded token", "a batch id outside the batch: nothing is written for the token"),
        Tolerance("stale slot", "a slot that the plane has not: -1 in every cell of the window"),
        Tolerance("no block", "a block id that the plane has not, or a group past the table: -1"),
        Tolerance(
            "stale chunk", "a chunk that starts behind the token, or before the forward's rows: -1 or nothing"
        ),
        Tolerance("negative position", "a live token at a negative position: nothing but in-chunk rows, or -1"),
        Tolerance("short slice", "a slice shorter than what the token reads: as much as fits, nothing outside"),
        Tolerance("absent class", "a class without layers, or without buffers: untouched"),
        Tolerance("stale padding", "elements past the batch do not matter"),
    ),
    accesses=(_extend(), *(_window(ratio) for ratio in (DENSE_RATIO, CSA_RATIO, HCA_RATIO)), _groups()),
    ordering=(
        Order("before", "sparse_attn_v4_paged_prefill", "which reads the slices"),
        Order("before", "swa_write", "the rows before the chunk must still be in the ring when they are read"),
    ),
    source="ROCm/ATOM, atom/model_ops/v4_kernels: ABI of write_v4_paged_prefill_indices",
)
