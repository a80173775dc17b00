"""Window write in both planes from one launch: a token's row number is computed once for its two parts."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvproof.kernels.arguments import check_count, check_vector
from kvproof.kernels.index_parts import check_positions
from kvproof.kernels.launch import cdiv, launch, next_power_of_2
from kvproof.kernels.row_index.kernel import window_row, window_scalars
from kvproof.kernels.row_moves import check_planes, move_rows
from kvproof.kernels.shapes import row_tile
from kvproof.models.row_space import WindowParams


@triton.jit(
    do_not_specialize=[
        "pool_rows",
        "write_per_batch",
        "ring_start",
        "slot_rows",
        "ring_slots",
        "ring_stride",
        "run_rows",
    ]
)
def window_write_planes_kernel(
    packed_ptr,
    rope_ptr,
    positions_ptr,
    cu_seqlens_q_ptr,
    slots_ptr,
    pool_ptr,
    pool_rope_ptr,
    packed_stride,
    rope_stride,
    pool_stride,
    pool_rope_stride,
    pool_rows,
    write_per_batch,
    ring_start,
    slot_rows,
    ring_slots,
    ring_stride,
    run_rows,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    D_ROPE: tl.constexpr,
    BLOCK_ROPE: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Grid (sequences, ceil(write_per_batch / ROWS)): program (b, g) writes tokens g*ROWS.. of the last
    min(tokens, write_per_batch) of sequence b. Strides in elements.
    """
    sequence = tl.program_id(0)
    start = tl.load(cu_seqlens_q_ptr + sequence)
    stop = tl.load(cu_seqlens_q_ptr + sequence + 1)
    first = tl.maximum(start, stop - write_per_batch)
    place = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    live = place < stop - first
    token = first + place

    slot = tl.load(slots_ptr + sequence)
    pos = tl.load(positions_ptr + token, mask=live, other=-1)
    row = window_row(slot, pos, ring_start, slot_rows, ring_slots, ring_stride, run_rows)
    # A stale slot gives a row outside the planes; a sentinel gives -1. Dropped, both.
    live = live & (row >= 0) & (row < pool_rows)
    move_rows(packed_ptr, token, packed_stride, pool_ptr, row, pool_stride, live, D, BLOCK_D)
    move_rows(rope_ptr, token, rope_stride, pool_rope_ptr, row, pool_rope_stride, live, D_ROPE, BLOCK_ROPE)


def swa_write_planes(
    k_packed: torch.Tensor,
    k_rope: torch.Tensor,
    positions: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    state_slot_per_seq: torch.Tensor,
    pool: torch.Tensor,
    pool_rope: torch.Tensor,
    window: WindowParams,
    write_per_batch: int,
) -> None:
    """Write both parts of the last ``min(tokens, write_per_batch)`` tokens of each sequence. In place.

    Args:
        k_packed: [T, D] or [T, 1, D] this forward's packed rows.
        k_rope: [T, D_rope] or [T, 1, D_rope] its RoPE rows.
        positions, cu_seqlens_q, state_slot_per_seq, window, write_per_batch: as of ``swa_write``.
        pool, pool_rope: [rows, D] and [rows, D_rope] the planes from the layer's base row on.

    Does not synchronise. A row outside the planes, a negative slot and a negative position are dropped.

    Raises:
        TypeError, ValueError: an argument out of its contract, by name.
    """
    scalars = window_scalars(window)
    packed, rope, pool, pool_rope = check_planes(k_packed, k_rope, pool, pool_rope)
    check_vector("state_slot_per_seq", state_slot_per_seq, 0, packed)
    check_vector("cu_seqlens_q", cu_seqlens_q, state_slot_per_seq.shape[0] + 1, packed)
    check_positions("positions", positions, packed.shape[0], packed)
    write_per_batch = check_count("write_per_batch", write_per_batch, 0, window.ring_slots)
    sequences, columns = state_slot_per_seq.shape[0], packed.shape[1]
    rows, warps = row_tile(columns * packed.element_size(), sequences * write_per_batch)
    launch(
        window_write_planes_kernel,
        (sequences, cdiv(write_per_batch, rows)),
        packed,
        rope,
        positions,
        cu_seqlens_q,
        state_slot_per_seq,
        pool,
        pool_rope,
        packed.stride(0),
        rope.stride(0),
        pool.stride(0),
        pool_rope.stride(0),
        pool.shape[0],
        write_per_batch,
        *scalars,
        D=columns,
        BLOCK_D=next_power_of_2(columns),
        D_ROPE=rope.shape[1],
        BLOCK_ROPE=next_power_of_2(rope.shape[1]),
        ROWS=rows,
        num_warps=warps,
    )
