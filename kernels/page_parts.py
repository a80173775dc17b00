"""Pages of the paged cache on the device: where an entry's two records lie, in either page format.

The formulas are those of :class:`~kvproof.models.schema.PageLayout`; every kernel that addresses a page calls
these and never writes them again. Offsets are 64-bit from the start.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvproof.kernels.arguments import check_count, check_rows, check_tensor
from kvproof.models.index import INT32_MAX

BYTES = (torch.uint8,)


@triton.jit
def data_record(block, place, page_stride, DATA: tl.constexpr, SCALE: tl.constexpr, INTERLEAVED: tl.constexpr):
    """Byte of the data record of entry ``place`` of block ``block``; int64. ``DATA``, ``SCALE``: record bytes."""
    record = DATA + SCALE if INTERLEAVED else DATA
    return block.to(tl.int64) * page_stride + place.to(tl.int64) * record


@triton.jit
def scale_record(
    block, place, page_stride, entries, DATA: tl.constexpr, SCALE: tl.constexpr, INTERLEAVED: tl.constexpr
):
    """Byte of the scale record of entry ``place`` of block ``block``; int64. ``entries``: entries of a page."""
    if INTERLEAVED:
        within = place.to(tl.int64) * (DATA + SCALE) + DATA
    else:
        within = entries.to(tl.int64) * DATA + place.to(tl.int64) * SCALE
    return block.to(tl.int64) * page_stride + within


@triton.jit
def move_bytes(
    source_ptr, source_at, target_ptr, target_at, live, N: tl.constexpr, BLOCK_N: tl.constexpr, zero_where
):
    """Copy N bytes from ``source_at[i]`` to ``target_at[i]`` where ``live[i]``; zeros where ``zero_where[i]``."""
    column = tl.arange(0, BLOCK_N)
    cells = live[:, None] & (column < N)[None, :]
    read = cells & (zero_where == 0)[:, None]
    value = tl.load(source_ptr + source_at[:, None] + column[None, :], mask=read, other=0)
    tl.store(target_ptr + target_at[:, None] + column[None, :], value, mask=cells)


def check_cache(cache: torch.Tensor, entries: int, data_bytes: int, scale_bytes: int) -> int:
    """Refuse a cache whose pages do not hold the records; return ``entries`` as ``int``.

    Raises:
        TypeError, ValueError: an argument out of its contract, by name.
    """
    entries = check_count("entries", entries, 1, INT32_MAX)
    check_tensor("cache", cache, ["blocks", "page_bytes"], BYTES)
    check_rows("cache", cache, distinct=True)
    payload = entries * (data_bytes + scale_bytes)
    if cache.shape[1] < payload:
        raise ValueError(
            f"cache has pages of {cache.shape[1]} bytes; {entries} entries of {data_bytes} + {scale_bytes} bytes "
            f"need {payload}"
        )
    return entries
