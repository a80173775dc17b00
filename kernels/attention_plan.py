"""How a launch of sparse paged attention is cut up: heads and keys a program, programs a slice.

Fixed by shapes, strides and the device, never by a tensor's contents or the clock.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import torch

MOST_SPLITS = 32

FEW_HEADS = 16
"""More heads than these are taken by ``attend_many_kernel``, whose slices are never split."""


@dataclass(frozen=True)
class Plan:
    """How a launch is cut up. Fixed by shapes and device, never by a tensor's contents or the clock.

    ``block_n`` is part of what a result's bits depend on, so it depends on heads, planes and device only.

    Attributes:
        block_h: heads a program.
        block_n: keys a tile.
        warps: warps a program.
        stages: tiles in flight, plus the index load before and the products after.
    """

    block_h: int
    block_n: int
    warps: int
    stages: int


@functools.cache
def tiles(heads: int, *, packed: bool, hip: bool) -> Plan:
    """The plan of one program.

    Measured on an H200 (docs/gpu.md). Up to 16 heads are one row of small matrix instructions; more are taken 64
    at a time in large ones. On an AMD GPU a tile has to fit 64 KiB of shared memory.
    """
    if hip:
        return Plan(16, 32, 4, 2)
    if heads <= FEW_HEADS:
        return Plan(16, 64, 8, 5) if packed else Plan(16, 64, 4, 3)
    return Plan(64, 64, 8, 3 if packed else 2)


@functools.cache
def processors(device: str) -> int:
    """Multiprocessors of a CUDA device (name with index). Asked once: the answer is on the host, but slow."""
    return torch.cuda.get_device_properties(torch.device(device)).multi_processor_count


def splits_for(programs: int, device: torch.device) -> int:
    """Programs a slice, so that a launch of few tokens still reaches every multiprocessor."""
    if device.type != "cuda":
        return 1
    wanted = min(processors(str(device)) // max(programs, 1), MOST_SPLITS)
    # Half the multiprocessors idle cost less than all tiles passing through scratch memory.
    return wanted if wanted > 2 else 1


@functools.cache
def plan_of(heads: int, *, packed: bool, hip: bool, few: bool, aligned: bool) -> Plan:
    """The plan of :func:`tiles`, with another number of tiles in flight where that serves. It changes no bit.

    Args:
        few: no more programs than multiprocessors, so that there is less to hide one another's waits.
        aligned: rows of both planes begin at multiples of 16 bytes. Those that do not are copied ahead a few bytes
            at a time, in a layout that takes more shared memory: five tiles of packed rows are too many then.
    """
    plan = tiles(heads, packed=packed, hip=hip)
    if hip or heads > FEW_HEADS:
        return plan
    if packed and not aligned:
        return replace(plan, stages=3)
    return replace(plan, stages=max(plan.stages, 5)) if few else plan
