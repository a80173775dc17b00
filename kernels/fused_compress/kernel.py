"""Fused compression: the launcher."""

from __future__ import annotations

from typing import Any

import torch

from kvproof.kernels.arguments import check_contiguous, check_count, check_rows, check_tensor, check_vector
from kvproof.kernels.fp8_parts import PACKED_DTYPES, as_bytes, has_native_e4m3, is_fnuz
from kvproof.kernels.fused_compress.device import fused_compress_kernel
from kvproof.kernels.launch import launch
from kvproof.kernels.state_update.spec import pooled
from kvproof.models.index import INT32_MAX
from kvproof.models.packed_row import PACKED_BYTES, ROPE, WIDTH

FLOAT_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
ANGLE_DTYPES = (torch.bfloat16, torch.float32)

MOST_AT_ONCE = 16
"""Positions that one program pools in one go; over more, several programs pool an entry's columns first."""
POOL_TILE, POOL_COLUMNS, POOL_WARPS, POOL_STAGES = 64, 32, 4, 1
"""How they do: positions at a time, columns a program, warps, tiles in flight. Measured on an H200."""


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
    entries = compress_plan.shape[0]
    split = k > MOST_AT_ONCE
    scratch = torch.empty((entries if split else 0, WIDTH), dtype=torch.float32, device=kv.device)
    arguments = (
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
        scratch,
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
    )
    constants: dict[str, Any] = {
        "RATIO": ratio,
        "K": k,
        "ONE_TYPE": kv.dtype == score.dtype == torch.float32,
        "PACKED": pool_rope is not None,
        "FNUZ": fnuz,
        "NATIVE": not fnuz and has_native_e4m3(kv),
    }
    if split:
        pool_phase = {
            "TILE_K": POOL_TILE,
            "COLUMNS": POOL_COLUMNS,
            "STAGES": POOL_STAGES,
            "POOL": True,
            "FINISH": False,
        }
        grid = (entries, WIDTH // POOL_COLUMNS)
        launch(fused_compress_kernel, grid, *arguments, **constants, **pool_phase, num_warps=POOL_WARPS)
    last_phase = {"TILE_K": k, "COLUMNS": WIDTH, "STAGES": 1, "POOL": not split, "FINISH": True}
    launch(fused_compress_kernel, (entries, 1), *arguments, **constants, **last_phase, num_warps=4)
