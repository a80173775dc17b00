"""Fused compression: one compressed entry a program, from the pooled positions to the row in the pool.

Softmax pooling runs over positions for each of the 512 elements by itself; ``TILE_K`` positions are loaded and
folded at a time. Which of them come from the state ring and which from this forward decides where they are
read, not how they are folded: a chunk may be split anywhere without changing a bit of the result.
"""

# Device code is not quite Python: tl.range is iterable.
# pyright: reportGeneralTypeIssues=false, reportOperatorIssue=false

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvproof.kernels.arguments import check_contiguous, check_count, check_rows, check_tensor, check_vector
from kvproof.kernels.fp8_parts import (
    PACKED_DTYPES,
    as_bytes,
    encode_tiles,
    has_native_e4m3,
    is_fnuz,
    store_packed,
)
from kvproof.kernels.launch import launch
from kvproof.kernels.row_index.kernel import compress_row, row_offset
from kvproof.kernels.state_update.spec import pooled
from kvproof.models.index import INT32_MAX
from kvproof.models.packed_row import PACKED_BYTES, ROPE, WIDTH

FLOAT_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
ANGLE_DTYPES = (torch.bfloat16, torch.float32)

COUNTS = [
    "num_rows",
    "num_seqs",
    "num_slots",
    "num_positions",
    "columns",
    "ring",
    "block_rows",
    "envelope_rows",
    "blocks",
    "pool_rows",
    "eps",
]


@triton.jit
def pooled_row(
    kv_ptr,
    score_ptr,
    ape_ptr,
    kv_state_ptr,
    score_state_ptr,
    kv_stride,
    score_stride,
    kv_place_stride,
    score_place_stride,
    ragged,
    pos,
    window,
    ring,
    RATIO: tl.constexpr,
    K: tl.constexpr,
    TILE_K: tl.constexpr,
):
    """The 512 pooled elements of the entry that position ``pos`` completes; fp32.

    Args:
        kv_ptr, score_ptr, ape_ptr: this forward's rows and the score term of each place in a group.
        kv_state_ptr, score_state_ptr: first element of the request's rings.
        ragged: this forward's row of ``pos``.
        window: of the K pooled positions, so many (the first) are in the rings.
    """
    d = tl.arange(0, 512)[None, :]
    top = tl.full([512], float("-inf"), tl.float32)
    total = tl.zeros([512], tl.float32)
    sums = tl.zeros([512], tl.float32)
    for first in tl.range(0, K, TILE_K, num_stages=3):
        k = first + tl.arange(0, TILE_K)
        at = pos - (K - 1) + k
        seen = (at >= 0) & (k < K)
        new = seen & (k >= window)
        old = seen & (k < window)
        # The first group of an overlapping entry has the first half of a row, the second the other.
        half = tl.where(k >= RATIO, 512, 0)[:, None]
        row = ragged - (K - 1) + k
        place = (at % ring)[:, None]
        kv = tl.load(kv_ptr + row_offset(row, kv_stride)[:, None] + half + d, mask=new[:, None], other=0.0)
        kept = tl.load(kv_state_ptr + row_offset(place, kv_place_stride) + half + d, mask=old[:, None], other=0.0)
        score = tl.load(
            score_ptr + row_offset(row, score_stride)[:, None] + half + d, mask=new[:, None], other=0.0
        )
        ape = tl.load(
            ape_ptr + (k % RATIO)[:, None] * (512 * (K // RATIO)) + half + d, mask=new[:, None], other=0.0
        )
        kept_score = tl.load(
            score_state_ptr + row_offset(place, score_place_stride) + half + d,
            mask=old[:, None],
            other=float("-inf"),
        )
        values = tl.where(new[:, None], kv.to(tl.float32), kept)
        scores = tl.where(new[:, None], score.to(tl.float32) + ape.to(tl.float32), kept_score)
        high = tl.maximum(top, tl.max(scores, 0))
        base = tl.where(high == float("-inf"), 0.0, high)
        keep = tl.exp(top - base)
        weights = tl.exp(scores - base[None, :])
        total = total * keep + tl.sum(weights, 0)
        sums = sums * keep + tl.sum(weights * values, 0)
        top = high
    return sums / total


@triton.jit
def rotated_row(row, weight_ptr, cos_ptr, sin_ptr, angle_row, angle_stride, eps):
    """RMS norm of 512 elements, then RoPE on the last 64 in pairs (even, odd)."""
    d = tl.arange(0, 512)
    scale = tl.rsqrt(tl.sum(row * row, 0) * (1 / 512) + eps)
    even, odd = tl.split(tl.reshape(row * scale * tl.load(weight_ptr + d), (256, 2)))
    pair = tl.arange(0, 256)
    turns = pair >= 224
    angle = row_offset(angle_row, angle_stride) + pair - 224
    cos = tl.load(cos_ptr + angle, mask=turns, other=1.0).to(tl.float32)
    sin = tl.load(sin_ptr + angle, mask=turns, other=0.0).to(tl.float32)
    new_even = tl.where(turns, even * cos - odd * sin, even)
    new_odd = tl.where(turns, odd * cos + even * sin, odd)
    return tl.interleave(new_even, new_odd)


@triton.jit(do_not_specialize=COUNTS)
def fused_compress_kernel(
    kv_ptr,
    score_ptr,
    ape_ptr,
    kv_state_ptr,
    score_state_ptr,
    plan_ptr,
    slots_ptr,
    weight_ptr,
    cos_ptr,
    sin_ptr,
    tables_ptr,
    pool_ptr,
    rope_ptr,
    kv_stride,
    score_stride,
    kv_slot_stride,
    kv_place_stride,
    score_slot_stride,
    score_place_stride,
    angle_stride,
    table_stride,
    pool_stride,
    rope_stride,
    num_rows,
    num_seqs,
    num_slots,
    num_positions,
    columns,
    ring,
    block_rows,
    envelope_rows,
    blocks,
    pool_rows,
    eps,
    RATIO: tl.constexpr,
    K: tl.constexpr,
    TILE_K: tl.constexpr,
    PACKED: tl.constexpr,
    FNUZ: tl.constexpr,
    NATIVE: tl.constexpr,
):
    """Grid (plan rows,). Strides in elements. Entries pool K positions: RATIO of them, or twice as many."""
    plan = plan_ptr + tl.program_id(0).to(tl.int64) * 4
    ragged = tl.load(plan)
    sequence = tl.load(plan + 1)
    pos = tl.load(plan + 2)
    window = tl.load(plan + 3)
    entry = pos // RATIO
    column = entry // block_rows
    live = (pos >= 0) & (ragged >= 0) & (ragged < num_rows) & (sequence >= 0) & (sequence < num_seqs)
    # The entries of this forward that the plan row reads must be rows of it.
    live = live & (window >= 0) & (window < K) & (ragged - (K - 1 - window) >= 0)
    live = live & (column < columns) & (entry * RATIO < num_positions)
    slot = tl.load(slots_ptr + sequence, mask=live, other=-1)
    block = tl.load(tables_ptr + row_offset(sequence, table_stride) + column, mask=live, other=-1)
    row = compress_row(block, entry % block_rows, envelope_rows)
    live = live & (slot >= 0) & (slot < num_slots) & (block >= 0) & (block < blocks) & (row < pool_rows)
    if live == 0:
        return

    pooled = pooled_row(
        kv_ptr,
        score_ptr,
        ape_ptr,
        kv_state_ptr + row_offset(slot, kv_slot_stride),
        score_state_ptr + row_offset(slot, score_slot_stride),
        kv_stride,
        score_stride,
        kv_place_stride,
        score_place_stride,
        ragged,
        pos,
        window,
        ring,
        RATIO,
        K,
        TILE_K,
    )
    y = rotated_row(pooled, weight_ptr, cos_ptr, sin_ptr, entry * RATIO, angle_stride, eps)
    d = tl.arange(0, 512)
    target = pool_ptr + row_offset(row, pool_stride)
    if PACKED:
        bits = tl.reshape(y.to(tl.int32, bitcast=True), (1, 8, 64))
        code, exponent = encode_tiles(bits, FNUZ, NATIVE)
        one = tl.arange(0, 1)
        store_packed(target + one, one == 0, code, exponent)
        rope = rope_ptr + row_offset(row, rope_stride) + d - 448
        tl.store(rope, y.to(tl.bfloat16), mask=d >= 448)
    else:
        tl.store(target + d, y.to(tl.bfloat16))


def fused_compress_attn(
    kv: torch.Tensor,
    score: torch.Tensor,
    ape: torch.Tensor,
    kv_state: torch.Tensor,
    score_state: torch.Tensor,
    compress_plan: torch.Tensor,
    state_slot_mapping: torch.Tensor,
    rms_weight: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    block_tables: torch.Tensor,
    pool: torch.Tensor,
    envelope_rows: int,
    block_rows: int,
    blocks: int,
    ratio: int,
    overlap: bool,
    rms_eps: float,
    pool_rope: torch.Tensor | None = None,
    variant: str = "ocp",
) -> None:
    """Compress the groups that this forward completes and write them to the pool. In place.

    Must run before the state update of the same forward, which overwrites ring positions that this reads.

    Args:
        kv, score: [N, dim] this forward's rows, fp32, bf16 or fp16; dim is 512, with ``overlap`` 1024; rows any
            distance apart.
        ape: [ratio, dim] score term of each place in a group, of one of those types.
        kv_state, score_state: [slots, ring, dim] fp32 rings; slots and ring places any distance apart.
        compress_plan: [n, 4] int32 rows (row of kv, sequence, position, positions that come from the rings);
            position -1 for none.
        state_slot_mapping: [bs] int32 physical slots.
        rms_weight: [512] fp32.
        cos, sin: [positions, 32] bf16 or fp32; an entry has the angles of its group's first position.
        block_tables: [bs, columns] int32 physical blocks; sequences any distance apart.
        pool: [rows, 512] the plane from the layer's base row on: bf16, or packed bytes with ``pool_rope``.
        envelope_rows: rows of an envelope.
        block_rows: the class's rows of a block: block size / ratio.
        blocks: block ids from here on are none.
        ratio, overlap: compress ratio, and whether entries overlap.
        rms_eps: positive.
        pool_rope: [rows, 64] bf16, the RoPE plane of packed rows.
        variant: e4m3 variant of packed rows, "ocp" or "fnuz".

    Does not synchronise. A plan row that names a row, sequence, slot, block or angle that is not there is
    skipped.

    Raises:
        TypeError, ValueError: an argument out of its contract, by name.
    """
    fnuz = is_fnuz(variant)
    ratio = check_count("ratio", ratio, 1, 2**15)
    if ratio & (ratio - 1):
        raise ValueError(f"ratio must be a power of two, got {ratio}")
    dim = WIDTH * (2 if overlap else 1)
    check_tensor("kv", kv, ["N", dim], FLOAT_DTYPES)
    check_tensor("score", score, [kv.shape[0], dim], FLOAT_DTYPES, kv)
    check_tensor("ape", ape, [ratio, dim], FLOAT_DTYPES, kv)
    check_tensor("kv_state", kv_state, ["slots", "ring", dim], (torch.float32,), kv)
    check_tensor("score_state", score_state, list(kv_state.shape), (torch.float32,), kv)
    check_tensor("compress_plan", compress_plan, ["n", 4], (torch.int32,), kv)
    check_vector("state_slot_mapping", state_slot_mapping, 0, kv)
    check_tensor("rms_weight", rms_weight, [WIDTH], (torch.float32,), kv)
    check_tensor("cos", cos, ["positions", ROPE // 2], ANGLE_DTYPES, kv)
    check_tensor("sin", sin, [cos.shape[0], ROPE // 2], (cos.dtype,), kv)
    check_tensor("block_tables", block_tables, [state_slot_mapping.shape[0], "columns"], (torch.int32,), kv)
    check_count("envelope_rows", envelope_rows, 1, INT32_MAX)
    check_count("block_rows", block_rows, 1, envelope_rows)
    check_count("blocks", blocks, 0, INT32_MAX)
    if pool_rope is None:
        check_tensor("pool", pool, ["rows", WIDTH], (torch.bfloat16,), kv)
    else:
        check_tensor("pool", pool, ["rows", PACKED_BYTES], PACKED_DTYPES, kv)
        check_tensor("pool_rope", pool_rope, [pool.shape[0], ROPE], (torch.bfloat16,), kv)
        check_rows("pool_rope", pool_rope, distinct=True)
    for name, value in (("kv", kv), ("score", score), ("block_tables", block_tables)):
        check_rows(name, value)
    check_rows("pool", pool, distinct=True)
    for name, value in (("ape", ape), ("compress_plan", compress_plan), ("rms_weight", rms_weight)):
        check_contiguous(name, value)
    for name, value in (("kv_state", kv_state), ("score_state", score_state)):
        if value.stride(2) != 1:
            raise ValueError(f"{name} must have contiguous rows (last stride 1), got {list(value.stride())}")
    if cos.stride() != sin.stride() or cos.stride(1) != 1:
        raise ValueError(
            f"cos and sin must have equal strides and contiguous rows, got {cos.stride()}, {sin.stride()}"
        )
    k = pooled(ratio, overlap)
    if kv_state.shape[1] < k:
        raise ValueError(
            f"kv_state must have at least {k} ring positions, as many as are pooled, got {kv_state.shape[1]}"
        )
    launch(
        fused_compress_kernel,
        (compress_plan.shape[0],),
        kv,
        score,
        ape,
        kv_state,
        score_state,
        compress_plan,
        state_slot_mapping,
        rms_weight,
        cos,
        sin,
        block_tables,
        as_bytes(pool) if pool_rope is not None else pool,
        pool_rope if pool_rope is not None else cos,
        kv.stride(0),
        score.stride(0),
        kv_state.stride(0),
        kv_state.stride(1),
        score_state.stride(0),
        score_state.stride(1),
        cos.stride(0),
        block_tables.stride(0),
        pool.stride(0),
        0 if pool_rope is None else pool_rope.stride(0),
        kv.shape[0],
        state_slot_mapping.shape[0],
        kv_state.shape[0],
        cos.shape[0],
        block_tables.shape[1],
        kv_state.shape[1],
        block_rows,
        envelope_rows,
        blocks,
        pool.shape[0],
        rms_eps,
        RATIO=ratio,
        K=k,
        TILE_K=min(k, 8),
        PACKED=pool_rope is not None,
        FNUZ=fnuz,
        NATIVE=not fnuz and has_native_e4m3(kv),
        num_warps=8 if k > 16 else 4,
    )
