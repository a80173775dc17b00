"""Compressor state update: plan rows of this forward's kv and score to their requests' state rings."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvproof.kernels.arguments import (
    INDEX_DTYPES,
    check_contiguous,
    check_count,
    check_rows,
    check_tensor,
    check_vector,
)
from kvproof.kernels.launch import cdiv, launch, next_power_of_2
from kvproof.kernels.row_index.kernel import row_offset
from kvproof.kernels.state_update.spec import pooled

FLOAT_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@triton.jit(do_not_specialize=["num_rows", "num_seqs", "num_slots", "ring", "ratio"])
def state_update_kernel(
    kv_ptr,
    score_ptr,
    ape_ptr,
    kv_state_ptr,
    score_state_ptr,
    plan_ptr,
    slots_ptr,
    kv_stride,
    score_stride,
    kv_slot_stride,
    score_slot_stride,
    num_rows,
    num_seqs,
    num_slots,
    ring,
    ratio,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """Grid (plan rows, ceil(D / BLOCK_D)). Strides in elements; a ring's rows are D apart."""
    plan = plan_ptr + tl.program_id(0).to(tl.int64) * 4
    ragged = tl.load(plan)
    sequence = tl.load(plan + 1)
    pos = tl.load(plan + 2)
    named = (ragged >= 0) & (ragged < num_rows) & (sequence >= 0) & (sequence < num_seqs)
    if (pos < 0) | (named == 0):
        return
    slot = tl.load(slots_ptr + sequence)
    column = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    live = column < D
    kv = tl.load(kv_ptr + row_offset(ragged, kv_stride) + column, mask=live)
    score = tl.load(score_ptr + row_offset(ragged, score_stride) + column, mask=live)
    ape = tl.load(ape_ptr + row_offset(pos % ratio, D) + column, mask=live)
    live = live & (slot >= 0) & (slot < num_slots)
    place = row_offset(pos % ring, D) + column
    total = score.to(tl.float32) + ape.to(tl.float32)
    # Slots are as far apart as the pool's, whose plane a state is a view of: 64 bits.
    tl.store(kv_state_ptr + row_offset(slot, kv_slot_stride) + place, kv.to(tl.float32), mask=live)
    tl.store(score_state_ptr + row_offset(slot, score_slot_stride) + place, total, mask=live)


def update_compressor_states(
    kv: torch.Tensor,
    score: torch.Tensor,
    ape: torch.Tensor,
    kv_state: torch.Tensor,
    score_state: torch.Tensor,
    *,
    write_plan: torch.Tensor,
    state_slot_mapping: torch.Tensor,
    ratio: int,
    overlap: bool,
) -> None:
    """Write plan rows of this forward to the state rings. In place, and after the fused compression.

    Args:
        kv, score: [N, dim] fp32, bf16 or fp16 rows of this forward, any distance apart.
        ape: [ratio, dim] term that is added to the score of a position, by its place in its group.
        kv_state, score_state: [slots, ring, dim] fp32; slots any distance apart, rings contiguous.
        write_plan: [n, 4] int32 rows (row of kv, sequence, position, unused); a negative position is padding.
        state_slot_mapping: [bs] int32 physical slots.
        ratio: compress ratio.
        overlap: whether entries pool two groups; the ring holds at least the positions of an entry.

    Does not synchronise. A row that names no input, no sequence or no slot of the states is dropped.

    Raises:
        TypeError, ValueError: an argument out of its contract, by name.
    """
    check_tensor("kv", kv, ["N", "dim"], FLOAT_DTYPES)
    rows, dim = kv.shape
    ratio = check_count("ratio", ratio, 1)
    check_tensor("score", score, [rows, dim], FLOAT_DTYPES, kv)
    check_tensor("ape", ape, [ratio, dim], FLOAT_DTYPES, kv)
    check_contiguous("ape", ape)
    check_rows("kv", kv)
    check_rows("score", score)
    check_tensor("kv_state", kv_state, ["slots", "ring", dim], (torch.float32,), kv)
    slots, ring, _ = kv_state.shape
    check_tensor("score_state", score_state, [slots, ring, dim], (torch.float32,), kv)
    for name, state in (("kv_state", kv_state), ("score_state", score_state)):
        check_rings(name, state)
    if ring < pooled(ratio, overlap):
        raise ValueError(
            f"kv_state has rings of {ring} positions; ratio {ratio} with overlap {overlap} pools "
            f"{pooled(ratio, overlap)}"
        )
    check_tensor("write_plan", write_plan, ["n", 4], INDEX_DTYPES, kv)
    check_contiguous("write_plan", write_plan)
    check_vector("state_slot_mapping", state_slot_mapping, 0, kv)
    sequences = state_slot_mapping.shape[0]
    if rows == 0 or dim == 0 or slots == 0 or sequences == 0:
        return
    block = min(next_power_of_2(dim), 1024)
    launch(
        state_update_kernel,
        (write_plan.shape[0], cdiv(dim, block)),
        kv,
        score,
        ape,
        kv_state,
        score_state,
        write_plan,
        state_slot_mapping,
        kv.stride(0),
        score.stride(0),
        kv_state.stride(0),
        score_state.stride(0),
        rows,
        sequences,
        slots,
        ring,
        ratio,
        D=dim,
        BLOCK_D=block,
        # Two fp32 accesses of 16 bytes a thread to each state.
        num_warps=max(min(block // 256, 4), 1),
    )


def check_rings(name: str, state: torch.Tensor) -> None:
    """Refuse a state whose rings are not contiguous, or whose slots overlap."""
    slots, ring, dim = state.shape
    inner = (state.stride(1) == dim or ring <= 1) and (state.stride(2) == 1 or dim <= 1)
    if not inner or (slots > 1 and state.stride(0) < ring * dim):
        raise ValueError(
            f"{name} must have contiguous rings of {ring} x {dim} elements that do not overlap, got strides "
            f"{list(state.stride())}"
        )
