"""Contract of the compressor state update."""

from __future__ import annotations

from kvproof.kernels.index_spec import clamped
from kvproof.kernels.state_update.spec import planned, pooled, stored, stored_score
from kvproof.models.contract import Access, Arguments, Clause, Contract, Index, Order, Scalar, Tensor, Tolerance
from kvproof.models.index import Condition, IndexValue, within

ROW = Index("i", stop=lambda a: a.n_plan)
LATER = Index("j", low=lambda _a, i: i + 1, stop=lambda a, _i: a.n_plan)
FLOATS = ("fp32", "bf16", "fp16")


def _slot(a: Arguments, i: IndexValue) -> IndexValue:
    return a.state_slot_mapping[clamped(a.write_plan[i, 1], a.bs)]


def _live(a: Arguments, i: IndexValue) -> Condition:
    ragged, sequence, pos = (a.write_plan[i, column] for column in range(3))
    return planned(ragged, sequence, pos, a.N, a.bs) & within(_slot(a, i), 0, a.slots)


def _cell(a: Arguments, i: IndexValue) -> tuple[IndexValue, IndexValue]:
    return _slot(a, i), a.write_plan[i, 2] % a.ring


def _apart(a: Arguments, i: IndexValue, j: IndexValue) -> Condition:
    (slot, place), (other, other_place) = _cell(a, i), _cell(a, j)
    dead = (a.write_plan[i, 2] < 0) | (a.write_plan[j, 2] < 0)
    return dead | (slot != other) | (place != other_place)


CONTRACT = Contract(
    name="update_compressor_states",
    summary="Writes this forward's kv and score rows to the state rings of their requests.",
    arguments=(
        Tensor("kv", FLOATS, ("N", "dim"), "this forward's kv rows", strides="rows"),
        Tensor("score", FLOATS, ("N", "dim"), "this forward's score rows", strides="rows"),
        Tensor("ape", FLOATS, ("ratio_rows", "dim"), "score term of each place in a group"),
        Tensor("kv_state", "fp32", ("slots", "ring", "dim"), "kv ring of each slot", "inout", "rows"),
        Tensor("score_state", "fp32", ("slots", "ring", "dim"), "score ring of each slot", "inout", "rows"),
        Tensor("write_plan", "int32", ("n_plan", 4), "row, sequence, position of each write; position -1: none"),
        Tensor("state_slot_mapping", "int32", ("bs",), "physical slot of each sequence"),
        Scalar("ratio", "compress ratio"),
        Scalar("overlap", "whether entries overlap, as those of CSA do", kind="bool"),
    ),
    requires=(
        Clause(
            "ape", "ape has a row for each place in a group", lambda a: (a.ratio >= 1) & (a.ratio_rows == a.ratio)
        ),
        Clause(
            "ring",
            "a ring holds the positions of one entry",
            lambda a: a.ring >= pooled(a.ratio, a.overlap),
        ),
        Clause("sequences", "there is a sequence", lambda a: a.bs >= 1),
        Clause("apart", "no two plan rows have one slot and one ring position", _apart, (ROW, LATER)),
    ),
    tolerates=(
        Tolerance("padding row", "a plan row at a negative position: nothing is written"),
        Tolerance("stale row", "a plan row that names no row of kv, or no sequence: nothing is written"),
        Tolerance("stale slot", "a slot outside the states: nothing is written"),
    ),
    accesses=(
        Access(
            "kv_state",
            "must",
            (ROW,),
            when=_live,
            cell=_cell,
            words="ring position (position mod ring) of each plan row's slot",
            bound=lambda a, i: stored(a.kv[a.write_plan[i, 0]]),
        ),
        Access(
            "score_state",
            "must",
            (ROW,),
            when=_live,
            cell=_cell,
            words="likewise",
            bound=lambda a, i: stored_score(a.score[a.write_plan[i, 0]], a.ape[a.write_plan[i, 2] % a.ratio]),
        ),
    ),
    ordering=(Order("after", "fused_compress_attn", "which reads ring positions that this forward overwrites"),),
    source="ROCm/ATOM, atom/model_ops/v4_kernels: ABI of update_compressor_states",
)
