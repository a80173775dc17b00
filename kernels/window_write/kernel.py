"""Window write: the last tokens of each sequence to their rows in the pool.

Runs in every layer of every forward and only moves bytes, so it does one pass: a program takes ``ROWS`` tokens
of one sequence, whole rows wide, and reads the sequence's bounds itself. Nothing is read back to the host, so
the launch can be captured in a graph with the largest batch and replayed with any smaller one.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvproof.kernels.arguments import (
    INDEX_DTYPES,
    POSITION_DTYPES,
    ROW_DTYPES,
    check_contiguous,
    check_count,
    check_rows,
    check_tensor,
)
from kvproof.kernels.launch import cdiv, launch, next_power_of_2
from kvproof.kernels.row_index.kernel import row_offset, window_row, window_scalars
from kvproof.kernels.window_write_planes.kernel import swa_write_planes
from kvproof.models.row_space import WindowParams

TILE_BYTES = 4096
"""Bytes that one program moves: four rows of 1 KiB, 16 bytes a thread in two passes of four warps."""


# The window's scalars are not specialised: one binary serves every class and layout, and the three divisions
# of a token hide behind its loads.
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
def window_write_kernel(
    kv_ptr,
    positions_ptr,
    cu_seqlens_q_ptr,
    slots_ptr,
    pool_ptr,
    kv_stride,
    pool_stride,
    pool_rows,
    write_per_batch,
    ring_start,
    slot_rows,
    ring_slots,
    ring_stride,
    run_rows,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
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
    # A stale slot gives a row outside the pool; a sentinel gives -1. Dropped, both.
    live = live & (row >= 0) & (row < pool_rows)

    column = tl.arange(0, BLOCK_D)
    cells = live[:, None] & (column < D)[None, :]
    source = kv_ptr + row_offset(token, kv_stride)[:, None] + column[None, :]
    target = pool_ptr + row_offset(row, pool_stride)[:, None] + column[None, :]
    tl.store(target, tl.load(source, mask=cells), mask=cells)


def swa_write(
    kv: torch.Tensor | None,
    positions: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    state_slot_per_seq: torch.Tensor,
    pool: torch.Tensor,
    window: WindowParams,
    write_per_batch: int,
    *,
    k_packed: torch.Tensor | None = None,
    k_rope: torch.Tensor | None = None,
    pool_rope: torch.Tensor | None = None,
) -> None:
    """Write the last ``min(tokens, write_per_batch)`` tokens of each sequence to their window rows. In place.

    Args:
        kv: [T, D] this forward's rows, bf16, fp16, fp32 or uint8; rows contiguous, any distance apart.
        positions: [>= T] absolute position of each token, int32 or int64.
        cu_seqlens_q: [>= bs + 1] int32: sequence b has tokens ``cu_seqlens_q[b] .. cu_seqlens_q[b + 1] - 1``.
        state_slot_per_seq: [bs] int32 physical slots; negative for a padded sequence.
        pool: [rows, D] the plane from the layer's base row on, of kv's type.
        window: the window scalars of the layer's class.
        write_per_batch: tokens written of one sequence, at most; at most ``window.ring_slots``, since more
            tokens of a sequence than it has ring rows would race for them.
        k_packed, k_rope, pool_rope: with them both planes are written from one launch, packed rows to ``pool`` and
            RoPE rows to ``pool_rope``; ``kv`` is then unused and may be None.

    Does not synchronise. A row outside the pool, a negative slot and a negative position are dropped.

    Raises:
        TypeError, ValueError: an argument out of its contract, by name.
    """
    if pool_rope is not None or k_packed is not None or k_rope is not None:
        if pool_rope is None or k_packed is None or k_rope is None:
            raise ValueError("k_packed, k_rope and pool_rope must be given together; one of them is None")
        tables = (positions, cu_seqlens_q, state_slot_per_seq)
        swa_write_planes(k_packed, k_rope, *tables, pool, pool_rope, window, write_per_batch)
        return
    if kv is None:
        raise ValueError("kv must be given unless k_packed, k_rope and pool_rope are")
    scalars = window_scalars(window)
    check_tensor("kv", kv, ["T", "D"], ROW_DTYPES)
    tokens, columns = kv.shape
    check_tensor("positions", positions, ["at least T"], POSITION_DTYPES, kv)
    check_tensor("cu_seqlens_q", cu_seqlens_q, ["at least bs + 1"], INDEX_DTYPES, kv)
    check_tensor("state_slot_per_seq", state_slot_per_seq, ["bs"], INDEX_DTYPES, kv)
    check_tensor("pool", pool, ["rows", columns], (kv.dtype,), kv)
    sequences = state_slot_per_seq.shape[0]
    if positions.shape[0] < tokens:
        raise ValueError(
            f"positions must have at least {tokens} elements, as many as kv has rows, got {positions.shape[0]}"
        )
    if cu_seqlens_q.shape[0] < sequences + 1:
        raise ValueError(
            f"cu_seqlens_q must have at least {sequences + 1} elements for {sequences} slots, got "
            f"{cu_seqlens_q.shape[0]}"
        )
    if columns < 1:
        raise ValueError(f"kv must have at least one column, got shape {list(kv.shape)}")
    check_contiguous("positions", positions)
    check_contiguous("cu_seqlens_q", cu_seqlens_q)
    check_contiguous("state_slot_per_seq", state_slot_per_seq)
    check_rows("kv", kv)
    check_rows("pool", pool, distinct=True)
    write_per_batch = check_count("write_per_batch", write_per_batch, 0, window.ring_slots)

    rows, warps = tile(columns * kv.element_size(), write_per_batch)
    launch(
        window_write_kernel,
        (sequences, cdiv(write_per_batch, rows)),
        kv,
        positions,
        cu_seqlens_q,
        state_slot_per_seq,
        pool,
        kv.stride(0),
        pool.stride(0),
        pool.shape[0],
        write_per_batch,
        *scalars,
        D=columns,
        BLOCK_D=next_power_of_2(columns),
        ROWS=rows,
        num_warps=warps,
    )


def tile(row_bytes: int, write_per_batch: int) -> tuple[int, int]:
    """(tokens a program, warps a program): up to ``TILE_BYTES`` in whole rows, 16 bytes a thread twice."""
    wanted = next_power_of_2(max(write_per_batch, 1))
    rows = min(wanted, max(TILE_BYTES // next_power_of_2(row_bytes), 1))
    moved = rows * next_power_of_2(row_bytes)
    return rows, min(max(moved // (2 * 16 * 32), 1), 8)
