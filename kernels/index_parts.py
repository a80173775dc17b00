"""What the index builders share on the device, and the scalars that they take from a geometry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch
import triton
import triton.language as tl

from kvproof.kernels.arguments import POSITION_DTYPES, check_count, check_vector
from kvproof.kernels.index_spec import serves
from kvproof.kernels.row_index.kernel import compress_row, ring_offset
from kvproof.models.index import INT32_MAX, as_index
from kvproof.models.row_space import HCA_RATIO, UnifiedPoolGeometry

Pair: TypeAlias = tuple[str, torch.Tensor | None, torch.Tensor | None]
"""Name of a class's buffers, slice bounds, indices."""


@triton.jit
def wrapped(ring_pos, ring_slots):
    """A ring position that is past the ring's end by less than one lap."""
    return tl.where(ring_pos >= ring_slots, ring_pos - ring_slots, ring_pos)


@triton.jit
def class_row(slot_row, ring_pos, run_rows, known, RUN: tl.constexpr):
    """Row of a ring position of one class; -1 where the slot is not known.

    Args:
        slot_row: first row of the slot's ring relative to the layer's base; int64.
        RUN: positions of a run; 0 for a ring that is one run.
    """
    row = slot_row + ring_pos if RUN == 0 else slot_row + ring_offset(ring_pos, RUN, run_rows)
    return tl.where(known, tl.maximum(row, -1), -1)


@triton.jit
def slice_bounds(indptr_ptr, t):
    """First cell of token t's slice, and the one past its last; int64."""
    return tl.load(indptr_ptr + t).to(tl.int64), tl.load(indptr_ptr + t + 1).to(tl.int64)


@triton.jit
def visible_groups(pos, committed, RATIO: tl.constexpr):
    """Complete groups at a position: min((pos + 1) div RATIO, committed), at least 0; 32 bits."""
    at = tl.maximum(pos, 0)
    # (at + 1) div RATIO without the sum, which a position at the end of its type would wrap.
    closed = tl.where(pos >= 0, at // RATIO + (at % RATIO + 1) // RATIO, 0)
    return tl.maximum(tl.minimum(closed, committed.to(tl.int64)), 0).to(tl.int32)


@triton.jit
def write_groups(
    table_ptr,
    indices_ptr,
    cell,
    start,
    end,
    count,
    columns,
    envelope_rows,
    blocks,
    PER_BLOCK: tl.constexpr,
    BLOCK_G: tl.constexpr,
):
    """Rows of a sequence's first ``count`` groups to cells ``cell..``, as far as they lie in ``start..end-1``.

    The second dimension of the grid shares the groups. A group whose block the plane has not gives -1.

    Args:
        table_ptr: the sequence's row of the block table, of ``columns`` ids.
        blocks: ids from here on are no blocks.
    """
    # A stale count must not keep a program busy beyond its slice.
    room = tl.minimum(count.to(tl.int64), tl.maximum(end - cell, 0)).to(tl.int32)
    first = tl.program_id(1) * BLOCK_G
    for k0 in range(first, room, tl.num_programs(1) * BLOCK_G):
        k = k0 + tl.arange(0, BLOCK_G)
        at = cell + k
        inside = (k < room) & (at >= start)
        column = k // PER_BLOCK
        block = tl.load(table_ptr + column, mask=inside & (column < columns), other=-1)
        row = compress_row(block, k % PER_BLOCK, envelope_rows)
        row = tl.where(block < blocks, row, -1)
        tl.store(indices_ptr + at, row.to(tl.int32), mask=inside)


@dataclass(frozen=True)
class ClassWindow:
    """One class's window as an index builder takes it; of an absent class everything is 0."""

    present: bool
    ring_start: int = 0
    run: int = 0
    run_rows: int = 0


def class_window(geometry: UnifiedPoolGeometry, ratio: int, present: bool) -> ClassWindow:
    """The window scalars of one class; nothing is asked of a geometry that lacks it."""
    if not present:
        return ClassWindow(present=False)
    window = geometry.window_params(ratio)
    one_run = window.ring_stride >= window.ring_slots
    return ClassWindow(True, window.ring_start, 0 if one_run else window.ring_stride, window.run_rows)


def check_geometry(geometry: UnifiedPoolGeometry, win: int) -> int:
    """Refuse a geometry whose rows an int32 index cannot hold, or whose ring cannot hold a window.

    Returns:
        ``win`` as an int.
    """
    if not isinstance(geometry, UnifiedPoolGeometry):
        raise TypeError(f"geometry must be a UnifiedPoolGeometry, got {type(geometry).__name__}")
    # Indices are int32.
    as_index("geometry.plane_rows", geometry.plane_rows, at_least=0, below=INT32_MAX + 1)
    as_index("geometry.slot_positions", geometry.slot_positions, at_least=0, below=INT32_MAX + 1)
    return check_count("win", win, 1, geometry.ring_slots)


def check_positions(name: str, value: torch.Tensor, least: int, like: torch.Tensor) -> None:
    """Refuse what is no contiguous vector of at least ``least`` positions."""
    check_vector(name, value, least, like, POSITION_DTYPES)


def check_pair(pair: Pair, geometry: UnifiedPoolGeometry, ratio: int, tokens: int, like: torch.Tensor) -> bool:
    """Refuse a class's slice bounds and indices if they do not fit; return whether the class is on.

    A class is on if the pool has layers of it and the caller passed its buffers.
    """
    name, indptr, indices = pair
    if (indptr is None) != (indices is None):
        raise ValueError(f"{name}_indptr and {name}_indices must be given together; one of them is None")
    if indptr is None or indices is None or not serves(geometry, ratio):
        return False
    check_vector(f"{name}_indptr", indptr, tokens + 1, like)
    check_vector(f"{name}_indices", indices, 0, like)
    return True


def check_hca(geometry: UnifiedPoolGeometry, hca_ratio: int, hca_rows_per_block: int) -> None:
    """Refuse numbers that are not the geometry's: a block of 256 tokens has two groups, not one."""
    held = geometry.classes[HCA_RATIO].block_rows
    if hca_ratio != HCA_RATIO:
        raise ValueError(f"hca_ratio must be {HCA_RATIO}, got {hca_ratio}")
    if hca_rows_per_block != held:
        raise ValueError(
            f"hca_rows_per_block must be {held} for a block of {geometry.block_size} tokens, "
            f"got {hca_rows_per_block}"
        )
