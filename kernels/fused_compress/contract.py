"""Contract of fused compression."""

from __future__ import annotations

from kvproof.kernels.fp8_pack.spec import known_variant
from kvproof.kernels.fused_compress.spec import (
    bf16_rows,
    clamp,
    complete,
    destination,
    entries,
    packed_rows,
    rope_rows,
)
from kvproof.kernels.state_update.spec import pooled
from kvproof.models.contract import (
    Access,
    Approximate,
    Arguments,
    Clause,
    Contract,
    Index,
    Order,
    Scalar,
    Tensor,
    Tolerance,
)
from kvproof.models.index import INT32_MAX, Condition, IndexValue, negate, within
from kvproof.models.packed_row import ROPE, WIDTH

ROW = Index("i", stop=lambda a: a.n_plan)
LATER = Index("j", low=lambda _a, i: i + 1, stop=lambda a, _i: a.n_plan)
FLOATS = ("fp32", "bf16", "fp16")


def _slot(a: Arguments, i: IndexValue) -> IndexValue:
    return a.state_slot_mapping[clamp(a.compress_plan[i, 1], a.bs)]


def _row(a: Arguments, i: IndexValue) -> IndexValue:
    return destination(a, a.compress_plan[i, 1], a.compress_plan[i, 2])


def _live(a: Arguments, i: IndexValue) -> Condition:
    ragged, sequence, pos, window = (a.compress_plan[i, column] for column in range(4))
    inside = within(_slot(a, i), 0, a.slots) & within(_row(a, i), 0, a.rows)
    return complete(ragged, sequence, pos, window, a) & inside


def _apart(a: Arguments, i: IndexValue, j: IndexValue) -> Condition:
    return negate(_live(a, i) & _live(a, j)) | (_row(a, i) != _row(a, j))


def _packed(a: Arguments) -> bool:
    return a.pool_rope is not None


def _pool(a: Arguments, i: IndexValue) -> Approximate:
    found = entries(a, i)
    return packed_rows(found, a.variant) if _packed(a) else bf16_rows(found)


def _rope(a: Arguments, i: IndexValue) -> Approximate:
    return rope_rows(entries(a, i))


CONTRACT = Contract(
    name="fused_compress_attn",
    summary="Pools, normalises and rotates each complete group and writes it to its row of the pool.",
    arguments=(
        Tensor("kv", FLOATS, ("N", "dim"), "this forward's kv rows", strides="rows"),
        Tensor("score", FLOATS, ("N", "dim"), "this forward's score rows", strides="rows"),
        Tensor("ape", FLOATS, ("ratio_rows", "dim"), "score term of each place in a group"),
        Tensor("kv_state", "fp32", ("slots", "ring", "dim"), "kv ring of each slot", strides="rows"),
        Tensor("score_state", "fp32", ("slots", "ring", "dim"), "score ring of each slot", strides="rows"),
        Tensor("compress_plan", "int32", ("n_plan", 4), "row, sequence, position, positions from the ring"),
        Tensor("state_slot_mapping", "int32", ("bs",), "physical slot of each sequence"),
        Tensor("rms_weight", "fp32", (WIDTH,), "weight of the norm"),
        Tensor("cos", ("bf16", "fp32"), ("positions", ROPE // 2), "cosines of each position", strides="rows"),
        Tensor("sin", ("bf16", "fp32"), ("positions", ROPE // 2), "sines of each position", strides="rows"),
        Tensor("block_tables", "int32", ("bs", "columns"), "physical blocks of each sequence", strides="rows"),
        Tensor(
            "pool", ("bf16", "uint8", "fp8"), ("rows", WIDTH), "the layer's view of the plane", "inout", "rows"
        ),
        Scalar("envelope_rows", "rows of an envelope"),
        Scalar("block_rows", "the class's rows of a block"),
        Scalar("blocks", "block ids from here on are none"),
        Scalar("ratio", "compress ratio"),
        Scalar("overlap", "whether entries overlap, as those of CSA do", kind="bool"),
        Scalar("rms_eps", "added to the mean square", kind="float"),
        Tensor("pool_rope", "bf16", ("rows", ROPE), "RoPE plane of packed rows", "inout", "rows", optional=True),
        Scalar("variant", "e4m3 variant of packed rows: ocp or fnuz", kind="str"),
    ),
    requires=(
        Clause("ape", "ape has a row for each place in a group", lambda a: a.ratio_rows == a.ratio),
        Clause(
            "ratio",
            "ratio is a power of two",
            lambda a: within(a.ratio, 1, 2**15 + 1) & (a.ratio & (a.ratio - 1) == 0),
        ),
        Clause("width", "rows are 512 wide, 1024 if entries overlap", lambda a: a.dim == WIDTH * (1 + a.overlap)),
        Clause("ring", "a ring holds the positions of an entry", lambda a: a.ring >= pooled(a.ratio, a.overlap)),
        Clause("sequences", "there is a sequence, and a block column", lambda a: (a.bs >= 1) & (a.columns >= 1)),
        Clause(
            "block",
            "an envelope holds a block's rows",
            lambda a: (
                within(a.block_rows, 1, a.envelope_rows + 1)
                & (a.envelope_rows <= INT32_MAX)
                & within(a.blocks, 0, INT32_MAX + 1)
            ),
        ),
        Clause("eps", "rms_eps is positive", lambda a: a.rms_eps > 0),
        Clause(
            "planes",
            "packed rows come with their RoPE plane",
            lambda a: (a.pool.dtype.itemsize == 1) == _packed(a),
        ),
        Clause("variant", "variant is ocp or fnuz", lambda a: known_variant(a.variant)),
        Clause(
            "boundary",
            "a plan row's position completes a group",
            lambda a, i: (a.compress_plan[i, 2] < 0) | ((a.compress_plan[i, 2] + 1) % a.ratio == 0),
            over=(ROW,),
        ),
        Clause("apart", "no two plan rows have one pool row", _apart, over=(ROW, LATER)),
    ),
    tolerates=(
        Tolerance("padding row", "a plan row at a negative position: nothing is written"),
        Tolerance(
            "stale row", "a plan row that names a row, sequence, column or angle that is not there: likewise"
        ),
        Tolerance("stale slot", "a slot outside the states: likewise"),
        Tolerance("no block", "a block id that is none: likewise"),
        Tolerance("poison", "ring positions and rows that an entry does not pool may hold anything, NaN included"),
    ),
    accesses=(
        Access(
            "pool",
            "must",
            (ROW,),
            when=_live,
            cell=lambda a, i: (_row(a, i),),
            words="the row of the entry that each plan row completes",
            bound=_pool,
        ),
        Access(
            "pool_rope",
            "must",
            (ROW,),
            when=lambda a, i: _live(a, i) & _packed(a),
            cell=lambda a, i: (_row(a, i),),
            words="likewise",
            bound=_rope,
        ),
        Access("compress_plan", "read", (ROW,), lambda _a, _i: True, lambda _a, i: (i,), "every plan row"),
    ),
    ordering=(
        Order("after", "make_compress_plans", "the plan"),
        Order("before", "update_compressor_states", "which overwrites ring positions that this reads"),
        Order("before", "sparse_attn_v4_paged_decode", "a token attends to the group that it completes"),
    ),
    source="ROCm/ATOM, atom/model_ops/v4_kernels: ABI of fused_compress_attn",
)
