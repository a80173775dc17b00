"""What the index builders share on the device, and the scalars that they take from a geometry."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from kvproof.kernels.arguments import POSITION_DTYPES, check_count, check_vector
from kvproof.kernels.row_index.kernel import ring_offset
from kvproof.models.index import INT32_MAX, as_index
from kvproof.models.row_space import UnifiedPoolGeometry


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
