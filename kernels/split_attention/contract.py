"""Contract of the split attention."""

from __future__ import annotations

from kvproof.kernels.split_attention.spec import WRITTEN, known_plan, outputs, plan_of
from kvproof.models.contract import (
    Access,
    Approximate,
    Arguments,
    Clause,
    Contract,
    Index,
    Scalar,
    Tensor,
    Tolerance,
)
from kvproof.models.index import Condition, IndexValue, within
from kvproof.models.scratch import HEAD_DIM, ScratchPlan

TOKEN = Index("t", stop=lambda a: a.T)


def plan(a: Arguments) -> ScratchPlan:
    """The scratch plan of a launch."""
    return plan_of(a.family, a.tp, a.topk, a.T, a.chunk)


def _span(name: str, a: Arguments) -> tuple[IndexValue, IndexValue]:
    offset, nbytes = plan(a).layout[name]
    return offset, offset + nbytes


def _region(name: str) -> Access:
    return Access(
        "scratch",
        "may",
        (Index("byte", low=lambda a: _span(name, a)[0], stop=lambda a: _span(name, a)[1]),),
        when=lambda _a, _byte: True,
        cell=lambda _a, byte: (byte,),
        words=f"region {name}",
    )


def _plan_exists(a: Arguments) -> Condition:
    return known_plan(a.family, a.tp, a.topk, a.T, a.chunk)


def _fits(a: Arguments) -> Condition:
    p = plan(a)
    return (a.scratch_bytes >= p.total_bytes) & (p.dims.heads == a.H) & (a.out_columns == a.H * HEAD_DIM)


def _outputs(a: Arguments, t: IndexValue) -> Approximate:
    return outputs(a.q, a.kv, a.kv_indices, a.kv_indptr, a.attn_sink, a.scale, plan(a).dims.keys, t)


CONTRACT = Contract(
    name="split_attention",
    summary="Attends in chunks of keys: partials and statistics through scratch, combined and quantised.",
    arguments=(
        Tensor("q", "bf16", ("T", "H", HEAD_DIM), "queries of the rank's heads"),
        Tensor("kv", "bf16", ("rows", HEAD_DIM), "rows, key and value at once", strides="rows"),
        Tensor("kv_indices", "int32", ("n_indices",), "rows that each token attends to"),
        Tensor("kv_indptr", "int32", ("n_indptr",), "first cell of each token's slice, and the end of the last"),
        Tensor("attn_sink", "fp32", ("H",), "a logit a head that takes weight and gives nothing"),
        Tensor("scratch", "uint8", ("scratch_bytes",), "the layer's scratch memory", role="inout"),
        Tensor("out", "fp32", ("T", "out_columns"), "outputs as the next projection decodes them", role="out"),
        Tensor("status", "int32", (1,), "0; a stage that waited in vain makes it positive", role="inout"),
        Scalar("scale", "factor of the scores", kind="float"),
        Scalar("family", "model family", kind="str"),
        Scalar("tp", "tensor-parallel ranks"),
        Scalar("topk", "compressed keys of a token at most"),
        Scalar("chunk", "keys of a chunk; 0 for the plan's choice"),
        Scalar("launch_number", "number of this launch on this scratch, from 0"),
        Scalar("concurrent", "all stages in one launch, waiting for one another", kind="bool"),
    ),
    requires=(
        Clause("plan", "the family has such a plan", _plan_exists),
        Clause("sizes", "scratch, heads and result are the plan's", _fits),
        Clause(
            "slices",
            "kv_indptr never falls, starts at 0 or above and ends within kv_indices",
            lambda a, t: (
                (a.kv_indptr[t] >= 0)
                & (a.kv_indptr[t] <= a.kv_indptr[t + 1])
                & (a.kv_indptr[t + 1] <= a.n_indices)
            ),
            over=(TOKEN,),
        ),
        Clause(
            "lengths", "every token has a slice, and there is a row", lambda a: (a.n_indptr > a.T) & (a.rows >= 1)
        ),
        Clause("status", "no stage has failed before", lambda a: a.status[0] == 0),
        Clause("launch", "launches are counted from 0", lambda a: within(a.launch_number, 0, 2**62)),
    ),
    tolerates=(
        Tolerance("no such row", "an index outside kv: the key is skipped, and no row is read"),
        Tolerance("too many keys", "more keys than the plan has chunks for: the first ones count"),
        Tolerance("no keys", "an empty slice: the output is 0"),
        Tolerance("stale scratch", "whatever an earlier launch left, flags included: it is never consumed"),
    ),
    accesses=(
        Access(
            "out",
            "must",
            (TOKEN,),
            when=lambda _a, _t: True,
            cell=lambda _a, t: (t,),
            words="the row of every token",
            bound=_outputs,
        ),
        *(_region(name) for name in WRITTEN),
        Access(
            "status",
            "failing",
            (Index("cell", stop=lambda _a: 1),),
            when=lambda _a, _cell: True,
            cell=lambda _a, cell: (cell,),
            words="the number of the stage that waited in vain",
        ),
    ),
    source="public plan module of the mega kernels: regions, chunks, pairs and launch tags",
)
