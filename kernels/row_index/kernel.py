"""Row formulas as device functions, and a probe kernel for each so that it can be compared and proved alone.

Every kernel that addresses the pool calls these and never writes the arithmetic again. They work in 64 bits
from the start: ids come from index buffers that may hold stale values, and a 32-bit product of one could wrap
into a row that belongs to somebody.

A sentinel (a negative slot, position, block or row) gives row -1. Callers drop a row that is negative or past
their view, and need no other test.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvproof.kernels.arguments import INDEX_DTYPES, POSITION_DTYPES, check_contiguous, check_count, check_tensor
from kvproof.kernels.launch import cdiv, launch
from kvproof.models.index import INT32_MAX
from kvproof.models.row_space import WindowParams

BLOCK = 128


@triton.jit
def ring_offset(ring_pos, ring_stride, run_rows):
    """Row of a ring position (32 bits) relative to ring position 0 of the same slot and layer; int64."""
    return (ring_pos // ring_stride).to(tl.int64) * run_rows + ring_pos % ring_stride


@triton.jit
def window_row(slot, pos, ring_start, slot_rows, ring_slots, ring_stride, run_rows):
    """Row of absolute position ``pos`` in physical slot ``slot``, relative to the layer's base row; int64.

    The five window scalars are those of ``WindowParams``, each below 2**31; constexpr or not.
    """
    ring_pos = (pos % ring_slots).to(tl.int32)
    row = slot.to(tl.int64) * slot_rows + ring_start + ring_offset(ring_pos, ring_stride, run_rows)
    return tl.where((slot >= 0) & (pos >= 0), row, -1)


@triton.jit
def compress_row(block, row, envelope_rows):
    """Row of compressed row ``row`` of physical block ``block``, relative to the layer's base row; int64."""
    return tl.where((block >= 0) & (row >= 0), block.to(tl.int64) * envelope_rows + row, -1)


@triton.jit
def row_offset(row, row_stride):
    """Elements from a view's first to row ``row``'s first; int64.

    A row fits 32 bits and its offset does not: 512 elements a row pass 2**31 at row 4,194,304.
    """
    return row.to(tl.int64) * row_stride


@triton.jit(do_not_specialize=["n", "ring_start", "slot_rows", "ring_slots", "ring_stride", "run_rows"])
def window_row_probe(
    slots_ptr,
    positions_ptr,
    out_ptr,
    n,
    ring_start,
    slot_rows,
    ring_slots,
    ring_stride,
    run_rows,
    BLOCK: tl.constexpr,
):
    """``out[i] = window_row(slots[i], positions[i])``, i < n; ``BLOCK`` of them a program."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = i < n
    slot = tl.load(slots_ptr + i, mask=live, other=-1)
    pos = tl.load(positions_ptr + i, mask=live, other=-1)
    row = window_row(slot, pos, ring_start, slot_rows, ring_slots, ring_stride, run_rows)
    tl.store(out_ptr + i, row, mask=live)


@triton.jit(do_not_specialize=["n", "envelope_rows"])
def compress_row_probe(blocks_ptr, rows_ptr, out_ptr, n, envelope_rows, BLOCK: tl.constexpr):
    """``out[i] = compress_row(blocks[i], rows[i])``, i < n; ``BLOCK`` of them a program."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = i < n
    block = tl.load(blocks_ptr + i, mask=live, other=-1)
    row = tl.load(rows_ptr + i, mask=live, other=-1)
    tl.store(out_ptr + i, compress_row(block, row, envelope_rows), mask=live)


@triton.jit(do_not_specialize=["n", "row_stride"])
def row_offset_probe(rows_ptr, out_ptr, n, row_stride, BLOCK: tl.constexpr):
    """``out[i] = row_offset(rows[i])``, i < n; ``BLOCK`` of them a program."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = i < n
    row = tl.load(rows_ptr + i, mask=live, other=0)
    tl.store(out_ptr + i, row_offset(row, row_stride), mask=live)


def window_scalars(window: WindowParams) -> tuple[int, int, int, int, int]:
    """The five window scalars in the order in which :func:`window_row` takes them.

    Raises:
        TypeError: not a :class:`WindowParams`.
        ValueError: a size that the device functions' 32-bit remainder cannot hold.
    """
    if not isinstance(window, WindowParams):
        raise TypeError(f"window must be a WindowParams, got {type(window).__name__}")
    sizes = (window.slot_rows, window.ring_slots, window.ring_stride, window.run_rows)
    if max(sizes) > INT32_MAX or abs(window.ring_start) > INT32_MAX:
        raise ValueError(f"window must have sizes below 2**31, got {window}")
    return (window.ring_start, *sizes)


def row_index(
    slots: torch.Tensor,
    positions: torch.Tensor,
    blocks: torch.Tensor,
    block_rows: torch.Tensor,
    plane_rows: torch.Tensor,
    window_rows: torch.Tensor,
    compress_rows: torch.Tensor,
    offsets: torch.Tensor,
    window: WindowParams,
    envelope_rows: int,
    row_stride: int,
) -> None:
    """Run the three row formulas, element by element.

    Args:
        slots, positions: [n] physical slot and absolute position of each window row.
        blocks, block_rows: [n] physical block and row within it of each compressed row.
        plane_rows: [n] rows to turn into element offsets.
        window_rows, compress_rows, offsets: [n] int64 results.
        window: the layer's window scalars.
        envelope_rows: rows of an envelope, not negative.
        row_stride: elements between two rows, at least 1.

    Raises:
        TypeError, ValueError: an argument out of its contract, by name.
    """
    scalars = window_scalars(window)
    check_tensor("slots", slots, ["n"], INDEX_DTYPES)
    n = slots.shape[0]
    for name, value, dtypes in (
        ("positions", positions, POSITION_DTYPES),
        ("blocks", blocks, INDEX_DTYPES),
        ("block_rows", block_rows, INDEX_DTYPES),
        ("plane_rows", plane_rows, INDEX_DTYPES),
        ("window_rows", window_rows, (torch.int64,)),
        ("compress_rows", compress_rows, (torch.int64,)),
        ("offsets", offsets, (torch.int64,)),
    ):
        check_tensor(name, value, [n], dtypes, slots)
        check_contiguous(name, value)
    check_contiguous("slots", slots)
    envelope_rows = check_count("envelope_rows", envelope_rows, 0, INT32_MAX)
    row_stride = check_count("row_stride", row_stride, 1, INT32_MAX)
    grid = (cdiv(n, BLOCK),)
    launch(window_row_probe, grid, slots, positions, window_rows, n, *scalars, BLOCK=BLOCK)
    launch(compress_row_probe, grid, blocks, block_rows, compress_rows, n, envelope_rows, BLOCK=BLOCK)
    launch(row_offset_probe, grid, plane_rows, offsets, n, row_stride, BLOCK=BLOCK)
