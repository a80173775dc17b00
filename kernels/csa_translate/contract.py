"""Contract of the CSA top-k translate."""

from __future__ import annotations

from kvproof.kernels.csa_translate.spec import entry_row, head_length
from kvproof.kernels.index_spec import clamped, live_sequence
from kvproof.models.contract import Access, Arguments, Clause, Contract, Index, Order, Scalar, Tensor, Tolerance
from kvproof.models.index import INT32_MAX, Condition, IndexValue, within

TOKEN = Index("t", stop=lambda a: a.T)
ENTRY = Index("k", stop=lambda a, _t: a.topk)


def _live(a: Arguments, t: IndexValue) -> Condition:
    return live_sequence(a.batch_id_per_token[t], a.bs)


def _head(a: Arguments, t: IndexValue) -> IndexValue:
    skip = 0 if a.skip_prefix_len_per_token is None else a.skip_prefix_len_per_token[t]
    start, end = a.kv_indptr_csa[t], a.kv_indptr_csa[t + 1]
    return head_length(start, end, a.positions[t], a.window_size, skip, a.topk)


def _written(a: Arguments, t: IndexValue, k: IndexValue) -> Condition:
    return _live(a, t) & (k < _head(a, t)) & within(a.kv_indptr_csa[t] + k, 0, a.n_cells)


def _row(a: Arguments, t: IndexValue, k: IndexValue) -> IndexValue:
    return entry_row(
        a.block_tables,
        clamped(a.batch_id_per_token[t], a.bs),
        a.topk_local[t, k],
        a.positions[t],
        a.envelope_rows,
        a.csa_block_capacity,
        a.columns,
    )


def _follow(a: Arguments, t: IndexValue) -> Condition:
    return a.kv_indptr_csa[t] <= a.kv_indptr_csa[t + 1]


CONTRACT = Contract(
    name="csa_translate_pack",
    summary="Writes the pool row of each selected entry to the head of its token's slice.",
    arguments=(
        Tensor(
            "topk_local",
            "int32",
            ("T", "topk"),
            "entries of the token's sequence; defined for the head only",
            strides="rows",
        ),
        Tensor(
            "block_tables",
            "int32",
            ("bs", "columns"),
            "physical block of each block of a sequence",
            strides="rows",
        ),
        Tensor("positions", ("int32", "int64"), ("n_positions",), "absolute position of each token", longer=True),
        Tensor(
            "kv_indptr_csa", "int32", ("n_indptr",), "first cell of each token's slice, and the end of the last"
        ),
        Tensor("batch_id_per_token", "int32", ("n_ids",), "sequence of each token, -1 of a padded one"),
        Tensor("skip_prefix_len_per_token", "int32", ("n_skip",), "window cells of each slice", optional=True),
        Tensor("kv_indices_csa", "int32", ("n_cells",), "rows to attend to", role="inout"),
        Scalar("envelope_rows", "rows of an envelope"),
        Scalar("csa_block_capacity", "entries of a block"),
        Scalar("window_size", "window in tokens, from which the window's cells follow; 0 if they are given"),
    ),
    requires=(
        Clause(
            "lengths",
            "every token has a position, a slice and an id, and its window's length if that is given",
            lambda a: (
                (a.n_positions >= a.T)
                & (a.n_indptr >= a.T + 1)
                & (a.n_ids >= a.T)
                & (a.bs >= 1)
                & (a.columns >= 1)
                & ((a.window_size > 0) | (False if a.skip_prefix_len_per_token is None else a.n_skip >= a.T))
            ),
        ),
        Clause("capacity", "1 <= csa_block_capacity", lambda a: within(a.csa_block_capacity, 1, INT32_MAX + 1)),
        Clause(
            "envelope", "an envelope holds a block", lambda a: within(a.envelope_rows, a.csa_block_capacity, 2**31)
        ),
        Clause("order", "slices follow one another: kv_indptr_csa never falls", _follow, (TOKEN,)),
    ),
    tolerates=(
        Tolerance("padded token", "a batch id outside the batch: nothing is written for the token"),
        Tolerance("garbage entry", "an entry that is negative, not complete or past the block table: -1"),
        Tolerance("no block", "a negative block id, or one whose row does not fit 32 bits: -1"),
        Tolerance("garbage tail", "entries behind the head: not read into any cell, whatever they are"),
        Tolerance(
            "wrong slice",
            "a slice shorter than its window, longer than the window and topk, or past the "
            "buffer: no cell outside the head or the buffer is written",
        ),
    ),
    accesses=(
        Access(
            "kv_indices_csa",
            "must",
            (TOKEN, ENTRY),
            when=_written,
            cell=lambda a, t, k: (a.kv_indptr_csa[t] + k,),
            words="the cells of each live token's slice that its window leaves, from the slice's start",
            value=_row,
        ),
    ),
    ordering=(Order("before", "sparse_attn_v4_paged_decode", "which reads the slices"),),
    source="ROCm/ATOM, atom/model_ops/v4_kernels: ABI of csa_translate_pack",
)
