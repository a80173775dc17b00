"""Contract of decode attention."""

from __future__ import annotations

from kvproof.kernels.attention_decode.spec import Source, attention, is_live, slice_of
from kvproof.kernels.fp8_pack.spec import known_variant
from kvproof.models.contract import Access, Approximate, Arguments, Clause, Contract, Index, Order, Scalar, Tensor
from kvproof.models.contract import Tolerance as Tolerates
from kvproof.models.index import Condition, IndexValue, within
from kvproof.models.packed_row import ROPE, WIDTH

TOKEN = Index("t", stop=lambda a: a.T)
ENTRY = Index(
    "j",
    low=lambda a, t: slice_of(a.kv_indptr, t, a.total)[0],
    stop=lambda a, t: slice_of(a.kv_indptr, t, a.total)[1],
)


def packing_fits(a: Arguments) -> Condition:
    """Packed rows come with their RoPE plane, bf16 rows without."""
    return (a.unified_kv.dtype.itemsize == 1) == (a.unified_kv_rope is not None)


def pool_source(a: Arguments) -> Source:
    """The rows that the pool's index buffer lists."""
    return Source(a.unified_kv, a.unified_kv_rope, a.variant, a.kv_indices, a.kv_indptr)


def _result(a: Arguments, t: IndexValue) -> Approximate:
    return attention(a.q, t, [pool_source(a)], a.attn_sink, a.scale)


QUERY_ARGUMENTS = (Tensor("q", "bf16", ("T", "H", WIDTH), "queries", strides="rows"),)
POOL_ARGUMENTS = (
    Tensor(
        "unified_kv",
        ("bf16", "uint8", "fp8"),
        ("rows", WIDTH),
        "the plane from the layer's base row on: bf16 rows, or packed ones",
        strides="rows",
    ),
    Tensor("kv_indices", "int32", ("total",), "entries: rows that tokens list, token after token"),
    Tensor("kv_indptr", "int32", ("T1",), "first entry of each token, and the end of the last"),
)
RESULT_ARGUMENTS = (
    Tensor("attn_sink", "fp32", ("H",), "sink logit of each head"),
    Scalar("scale", "softmax scale", kind="float"),
    Tensor("out", "bf16", ("T", "H", WIDTH), "results", role="out", strides="rows"),
    Tensor("unified_kv_rope", "bf16", ("rows", ROPE), "RoPE plane of packed rows", strides="rows", optional=True),
    Scalar("variant", "e4m3 variant of packed rows: ocp or fnuz", kind="str"),
    Scalar("splits", "programs that share a slice; 0 chooses"),
)
POOL_REQUIRES = (
    Clause("bounds", "kv_indptr has an end for every token", lambda a: a.T1 >= a.T + 1),
    Clause(
        "order",
        "kv_indptr never falls",
        lambda a, t: a.kv_indptr[t] <= a.kv_indptr[t + 1],
        over=(TOKEN,),
    ),
    Clause("planes", "packed rows come with their RoPE plane, bf16 rows without", packing_fits),
    Clause("variant", "variant is ocp or fnuz", lambda a: known_variant(a.variant)),
    Clause("splits", "0 <= splits <= 32", lambda a: within(a.splits, 0, 33)),
    Clause(
        "sink",
        "a sink logit is a number or -inf",
        lambda a, h: a.attn_sink[h] < float("inf"),
        over=(Index("h", stop=lambda a: a.H),),
    ),
)
POOL_TOLERATES = (
    Tolerates("sentinel", "a negative entry lists no row"),
    Tolerates("stale entry", "an entry past the plane lists no row"),
    Tolerates("short buffer", "of a slice that ends past kv_indices only the entries that exist count"),
    Tolerates("poison", "rows that no token lists may hold anything, NaN included; a token sees its own only"),
    Tolerates("padded token", "an empty slice gives 0"),
)
POOL_READS = (
    Access(
        "unified_kv",
        "read",
        (TOKEN, ENTRY),
        when=lambda a, _t, j: is_live(a.kv_indices, j, a.rows),
        cell=lambda a, _t, j: (a.kv_indices[j],),
        words="the rows listed",
    ),
    Access(
        "unified_kv_rope",
        "read",
        (TOKEN, ENTRY),
        when=lambda a, _t, j: is_live(a.kv_indices, j, a.rows) & (a.unified_kv_rope is not None),
        cell=lambda a, _t, j: (a.kv_indices[j],),
        words="the rows listed",
    ),
    Access("kv_indices", "read", (TOKEN, ENTRY), lambda _a, _t, _j: True, lambda _a, _t, j: (j,), "every slice"),
    Access("q", "read", (TOKEN,), lambda _a, _t: True, lambda _a, t: (t,), "every token"),
)

CONTRACT = Contract(
    name="sparse_attn_v4_paged_decode",
    summary="Softmax attention of each token over the pool rows that it lists, plus one sink logit a head.",
    arguments=(*QUERY_ARGUMENTS, *POOL_ARGUMENTS, *RESULT_ARGUMENTS),
    requires=POOL_REQUIRES,
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
    ),
    ordering=(
        Order("after", "swa_write", "a decode token attends to its own row"),
        Order("after", "fused_compress_attn", "a token attends to the group that it completes"),
        Order("after", "write_v4_paged_decode_indices", "the entries"),
    ),
    source="ROCm/ATOM, atom/model_ops/v4_kernels: ABI of sparse_attn_v4_paged_decode",
)
