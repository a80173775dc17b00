"""Window gather: each request's last window positions as a dense tensor, in one plane."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvproof.kernels.arguments import INDEX_DTYPES, ROW_DTYPES, check_count, check_rows, check_tensor, check_vector
from kvproof.kernels.index_parts import check_positions, wrapped
from kvproof.kernels.launch import cdiv, launch, next_power_of_2
from kvproof.kernels.row_index.kernel import ring_offset, row_offset, window_scalars
from kvproof.kernels.row_moves import as_bytes
from kvproof.kernels.shapes import row_tile
from kvproof.models.row_space import WindowParams


@triton.jit
def window_rows(
    slots_ptr,
    anchors_ptr,
    b,
    first,
    place,
    draft_window,
    ring_start,
    slot_rows,
    ring_slots,
    ring_stride,
    run_rows,
    pool_rows,
):
    """Pool rows of cells ``first + place`` of request b's window, and whether each holds a position of the pool.

    A program's cells follow one another and are no more than the ring's, so one remainder serves them all.
    """
    # So far below 0 no position is a token's, and nothing that follows can wrap.
    low = tl.maximum(tl.load(anchors_ptr + b).to(tl.int64), -(2**62)) - (draft_window - 1) + first
    slot = tl.load(slots_ptr + b).to(tl.int64)
    at = (low % ring_slots).to(tl.int32)
    # The remainder of a position before the first is negative.
    at = tl.where(at < 0, at + ring_slots, at)
    ring_pos = wrapped(at + place, ring_slots)
    row = slot * slot_rows + ring_start + ring_offset(ring_pos, ring_stride, run_rows)
    live = (first + place < draft_window) & (low + place >= 0) & (slot >= 0) & (row >= 0) & (row < pool_rows)
    return row, live


@triton.jit(
    do_not_specialize=[
        "pool_rows",
        "draft_window",
        "ring_start",
        "slot_rows",
        "ring_slots",
        "ring_stride",
        "run_rows",
    ]
)
def window_gather_kernel(
    pool_ptr,
    slots_ptr,
    anchors_ptr,
    out_ptr,
    pool_stride,
    pool_rows,
    draft_window,
    ring_start,
    slot_rows,
    ring_slots,
    ring_stride,
    run_rows,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Grid (requests, ceil(draft_window / ROWS)): program (b, g) gathers cells g*ROWS.. of request b."""
    b = tl.program_id(0)
    first = tl.program_id(1) * ROWS
    place = tl.arange(0, ROWS)
    row, live = window_rows(
        slots_ptr,
        anchors_ptr,
        b,
        first,
        place,
        draft_window,
        ring_start,
        slot_rows,
        ring_slots,
        ring_stride,
        run_rows,
        pool_rows,
    )
    column = tl.arange(0, BLOCK_D)
    source = pool_ptr + row_offset(row, pool_stride)[:, None] + column[None, :]
    held = tl.load(source, mask=live[:, None] & (column < D)[None, :], other=0)
    cell = b.to(tl.int64) * draft_window + first + place
    cells = (first + place < draft_window)[:, None] & (column < D)[None, :]
    tl.store(out_ptr + row_offset(cell, D)[:, None] + column[None, :], held, mask=cells)


def gather_shape(draft_window: int, row_bytes: int, ring_slots: int, requests: int) -> tuple[int, int, int]:
    """(cells a program, warps, programs a request). A program's cells must fit one lap of the ring."""
    rows, warps = row_tile(row_bytes, requests * draft_window)
    while rows > ring_slots:
        rows //= 2
    return rows, warps, cdiv(draft_window, rows)


def dspark_paged_window_gather(
    pool: torch.Tensor,
    state_slot_per_seq: torch.Tensor,
    anchor_pos: torch.Tensor,
    draft_window: int,
    window: WindowParams,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Copy the positions ``anchor - draft_window + 1 .. anchor`` of each request to a dense tensor.

    Args:
        pool: [rows, D] the plane from the layer's base row on; rows contiguous, any distance apart.
        state_slot_per_seq: [B] int32 physical slots; negative for a padded request.
        anchor_pos: [>= B] int32 or int64 last position of each window.
        draft_window: positions of a window, at most the ring's.
        window: the window scalars of the layer's class.
        out: [B, draft_window, D] result, of the pool's type; allocated if None.

    Returns:
        ``out``: in cell s the row of position ``anchor - (draft_window - 1) + s``; zeros before position 0 and
        where the pool has no such row.

    Does not synchronise.

    Raises:
        TypeError, ValueError: an argument out of its contract, by name.
    """
    scalars = window_scalars(window)
    draft_window = check_count("draft_window", draft_window, 0, window.ring_slots)
    check_vector("state_slot_per_seq", state_slot_per_seq, 0, state_slot_per_seq, INDEX_DTYPES)
    requests = state_slot_per_seq.shape[0]
    check_positions("anchor_pos", anchor_pos, requests, state_slot_per_seq)
    rows = as_bytes(pool)
    check_tensor("pool", rows, ["rows", "D"], ROW_DTYPES, state_slot_per_seq)
    check_rows("pool", rows)
    columns = rows.shape[1]
    if columns < 1:
        raise ValueError(f"pool must have at least one column, got shape {list(pool.shape)}")
    if out is None:
        out = torch.empty((requests, draft_window, columns), dtype=pool.dtype, device=pool.device)
    check_tensor("out", out, [requests, draft_window, columns], (pool.dtype,), state_slot_per_seq)
    if not out.is_contiguous():
        raise ValueError(f"out must be contiguous, got strides {list(out.stride())}")
    per, warps, programs = gather_shape(draft_window, columns * rows.element_size(), window.ring_slots, requests)
    launch(
        window_gather_kernel,
        (requests, programs),
        rows,
        state_slot_per_seq,
        anchor_pos,
        as_bytes(out),
        rows.stride(0),
        rows.shape[0],
        draft_window,
        *scalars,
        D=columns,
        BLOCK_D=next_power_of_2(columns),
        ROWS=per,
        num_warps=warps,
    )
    return out
