"""Dequantising window gather: rows of both planes unpacked to bf16 on the way, so that no copy of them is made."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvproof.kernels.arguments import INDEX_DTYPES, check_count, check_rows, check_tensor, check_vector
from kvproof.kernels.fp8_parts import PACKED_DTYPES, as_bytes, is_fnuz
from kvproof.kernels.fp8_unpack.kernel import unpacked_tiles
from kvproof.kernels.index_parts import check_positions
from kvproof.kernels.launch import launch
from kvproof.kernels.row_index.kernel import row_offset, window_scalars
from kvproof.kernels.window_gather.kernel import gather_shape, window_rows
from kvproof.models.packed_row import PACKED_BYTES, ROPE, WIDTH
from kvproof.models.row_space import WindowParams


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
def window_gather_planes_kernel(
    pool_ptr,
    rope_ptr,
    slots_ptr,
    anchors_ptr,
    out_ptr,
    pool_stride,
    rope_stride,
    pool_rows,
    draft_window,
    ring_start,
    slot_rows,
    ring_slots,
    ring_stride,
    run_rows,
    FNUZ: tl.constexpr,
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
    # Rows that are not live load as zero bytes, whose scale is 0.
    nope = unpacked_tiles(pool_ptr + row_offset(row, pool_stride), live, FNUZ)
    lane = tl.arange(0, 64)
    rope = tl.load(rope_ptr + row_offset(row, rope_stride)[:, None] + lane[None, :], mask=live[:, None], other=0.0)

    target = out_ptr + row_offset(b.to(tl.int64) * draft_window + first + place, 512)
    written = first + place < draft_window
    tile = tl.arange(0, 8)
    cells = written[:, None, None] & (tile < 7)[None, :, None] & (lane >= 0)[None, None, :]
    column = (tile * 64)[None, :, None] + lane[None, None, :]
    tl.store(target[:, None, None] + column, nope.to(tl.bfloat16), mask=cells)
    tl.store(target[:, None] + 448 + lane[None, :], rope, mask=written[:, None])


def dspark_paged_window_gather_2buff(
    pool: torch.Tensor,
    pool_rope: torch.Tensor,
    state_slot_per_seq: torch.Tensor,
    anchor_pos: torch.Tensor,
    draft_window: int,
    window: WindowParams,
    out: torch.Tensor | None = None,
    variant: str = "ocp",
) -> torch.Tensor:
    """Unpack the positions ``anchor - draft_window + 1 .. anchor`` of each request to a dense bf16 tensor.

    Args:
        pool: [rows, 512] packed plane (bytes or an fp8 type) from the layer's base row on.
        pool_rope: [rows, 64] bf16 RoPE plane from the same row on.
        state_slot_per_seq, anchor_pos, draft_window, window: as of ``dspark_paged_window_gather``.
        out: [B, draft_window, 512] bf16 result; allocated if None.
        variant: "ocp" or "fnuz", the e4m3 variant of the packed bytes.

    Returns:
        ``out``; zeros before position 0 and where the pool has no such row.

    Does not synchronise.

    Raises:
        TypeError, ValueError: an argument out of its contract, by name.
    """
    scalars = window_scalars(window)
    fnuz = is_fnuz(variant)
    draft_window = check_count("draft_window", draft_window, 0, window.ring_slots)
    check_vector("state_slot_per_seq", state_slot_per_seq, 0, state_slot_per_seq, INDEX_DTYPES)
    requests = state_slot_per_seq.shape[0]
    check_positions("anchor_pos", anchor_pos, requests, state_slot_per_seq)
    check_tensor("pool", pool, ["rows", PACKED_BYTES], PACKED_DTYPES, state_slot_per_seq)
    check_tensor("pool_rope", pool_rope, [pool.shape[0], ROPE], (torch.bfloat16,), state_slot_per_seq)
    check_rows("pool", pool)
    check_rows("pool_rope", pool_rope)
    if out is None:
        out = torch.empty((requests, draft_window, WIDTH), dtype=torch.bfloat16, device=pool.device)
    check_tensor("out", out, [requests, draft_window, WIDTH], (torch.bfloat16,), state_slot_per_seq)
    if not out.is_contiguous():
        raise ValueError(f"out must be contiguous, got strides {list(out.stride())}")
    # Tiles by the rows read: by those written, twice as wide, a program has too few loads in flight.
    per, warps, programs = gather_shape(draft_window, PACKED_BYTES, window.ring_slots, requests)
    launch(
        window_gather_planes_kernel,
        (requests, programs),
        as_bytes(pool),
        pool_rope,
        state_slot_per_seq,
        anchor_pos,
        out,
        pool.stride(0),
        pool_rope.stride(0),
        pool.shape[0],
        draft_window,
        *scalars,
        FNUZ=fnuz,
        ROWS=per,
        num_warps=warps,
    )
    return out
