"""Contract of prefill attention: that of decode, with this forward's rows as a second source of keys."""

from __future__ import annotations

from kvproof.kernels.attention_decode.contract import (
    POOL_ARGUMENTS,
    POOL_READS,
    POOL_REQUIRES,
    POOL_TOLERATES,
    QUERY_ARGUMENTS,
    RESULT_ARGUMENTS,
    TOKEN,
    pool_source,
)
from kvproof.kernels.attention_decode.spec import is_live, slice_of
from kvproof.kernels.attention_prefill.spec import two_sources
from kvproof.models.contract import Access, Approximate, Arguments, Clause, Contract, Index, Order, Tensor
from kvproof.models.index import IndexValue
from kvproof.models.packed_row import WIDTH

EXTEND_ENTRY = Index(
    "j",
    low=lambda a, t: slice_of(a.extend_indptr, t, a.extend_total)[0],
    stop=lambda a, t: slice_of(a.extend_indptr, t, a.extend_total)[1],
)


def _result(a: Arguments, t: IndexValue) -> Approximate:
    return two_sources(a, t, pool_source(a))


CONTRACT = Contract(
    name="sparse_attn_v4_paged_prefill",
    summary="Softmax attention of each token over the pool rows and the new rows that it lists, plus a sink.",
    arguments=(
        *QUERY_ARGUMENTS,
        *POOL_ARGUMENTS,
        Tensor("kv", "bf16", ("new", WIDTH), "this forward's rows, not in the pool yet", strides="rows"),
        Tensor("extend_indices", "int32", ("extend_total",), "entries over kv, token after token"),
        Tensor("extend_indptr", "int32", ("E1",), "first entry of each token, and the end of the last"),
        *RESULT_ARGUMENTS,
    ),
    requires=(
        *POOL_REQUIRES,
        Clause("extend bounds", "extend_indptr has an end for every token", lambda a: a.E1 >= a.T + 1),
        Clause(
            "extend order",
            "extend_indptr never falls",
            lambda a, t: a.extend_indptr[t] <= a.extend_indptr[t + 1],
            over=(TOKEN,),
        ),
    ),
    tolerates=POOL_TOLERATES,
    accesses=(
        Access(
            "out",
            "must",
            (TOKEN,),
            when=lambda _a, _t: True,
            cell=lambda _a, t: (t,),
            words="every token",
            bound=_result,
        ),
        *POOL_READS,
        Access(
            "kv",
            "read",
            (TOKEN, EXTEND_ENTRY),
            when=lambda a, _t, j: is_live(a.extend_indices, j, a.new),
            cell=lambda a, _t, j: (a.extend_indices[j],),
            words="the new rows listed",
        ),
        Access(
            "extend_indices",
            "read",
            (TOKEN, EXTEND_ENTRY),
            lambda _a, _t, _j: True,
            lambda _a, _t, j: (j,),
            "every slice",
        ),
    ),
    ordering=(
        Order("before", "swa_write", "a chunk's tail overwrites window rows that the chunk still reads"),
        Order("after", "fused_compress_attn", "a token attends to the groups that its chunk completes"),
        Order("after", "write_v4_paged_prefill_indices", "the entries"),
    ),
    source="ROCm/ATOM, atom/model_ops/v4_kernels: ABI of sparse_attn_v4_paged_prefill",
)
