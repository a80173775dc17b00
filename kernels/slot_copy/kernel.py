"""Slot copy: many spans of bytes from one buffer to another, in one launch.

A checkpoint copies a few slots of megabytes each, a transfer thousands of small spans; the programs of a span
share its tiles, so that either fills the GPU.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvproof.kernels.arguments import check_contiguous, check_count, check_tensor
from kvproof.kernels.launch import launch
from kvproof.kernels.shapes import SPAN_TILE_BYTES, span_sharers
from kvproof.models.index import INT32_MAX


@triton.jit(do_not_specialize=["source_granules", "target_granules"])
def slot_copy_kernel(
    source_ptr,
    target_ptr,
    spans_ptr,
    source_granules,
    target_granules,
    GRANULE: tl.constexpr,
    TILE: tl.constexpr,
):
    """Grid (spans, sharers): the programs of a span take its tiles in turn."""
    span = spans_ptr + tl.program_id(0).to(tl.int64) * 3
    source = tl.load(span)
    target = tl.load(span + 1)
    length = tl.load(span + 2)
    # Compared so that no sum of stale numbers can wrap.
    held = (length >= 0) & (length <= source_granules) & (length <= target_granules)
    held = held & (source >= 0) & (source <= source_granules - length)
    held = held & (target >= 0) & (target <= target_granules - length)
    size = tl.where(held, length, 0) * GRANULE
    step = tl.num_programs(1).to(tl.int64) * TILE
    # A span that is not copied may start anywhere; nothing is multiplied of it.
    from_ptr = source_ptr + tl.where(held, source, 0) * GRANULE
    to_ptr = target_ptr + tl.where(held, target, 0) * GRANULE
    for first in range(tl.program_id(1).to(tl.int64) * TILE, size, step):
        at = first + tl.arange(0, TILE)
        live = at < size
        tl.store(to_ptr + at, tl.load(from_ptr + at, mask=live), mask=live)


def copy_spans(source: torch.Tensor, target: torch.Tensor, spans: torch.Tensor, granule: int = 16) -> None:
    """Copy spans of bytes. In place.

    Args:
        source, target: [bytes] uint8, contiguous; may be one buffer, or parts of one.
        spans: [n, 3] int64 on the same device: first granule in the source, first granule in the target, and
            granules. Spans must not overlap in the target, nor lie there where another is read.
        granule: bytes that spans are counted in. A multiple of 16 is moved 16 bytes at a time.

    Does not synchronise. A span that leaves one of the buffers is not copied.

    Raises:
        TypeError, ValueError: an argument out of its contract, by name.
    """
    check_tensor("source", source, ["bytes"], (torch.uint8,))
    check_tensor("target", target, ["bytes"], (torch.uint8,), source)
    check_tensor("spans", spans, ["n", 3], (torch.int64,), source)
    for name, value in (("source", source), ("target", target), ("spans", spans)):
        check_contiguous(name, value)
    granule = check_count("granule", granule, 1, INT32_MAX)
    count = spans.shape[0]
    launch(
        slot_copy_kernel,
        # No span is longer than a buffer.
        (count, span_sharers(count, min(source.shape[0], target.shape[0]))),
        source,
        target,
        spans,
        source.shape[0] // granule,
        target.shape[0] // granule,
        GRANULE=granule,
        TILE=SPAN_TILE_BYTES,
        num_warps=4,
    )
