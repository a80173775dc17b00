"""Appending to the paged cache: one program copies the records of a few tokens, each to its page."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvproof.kernels.arguments import check_rows, check_tensor
from kvproof.kernels.launch import cdiv, launch, next_power_of_2
from kvproof.kernels.page_parts import BYTES, check_cache, data_record, move_bytes, scale_record
from kvproof.kernels.row_index.kernel import row_offset
from kvproof.kernels.shapes import row_tile


@triton.jit(do_not_specialize=["n", "num_slots", "entries"])
def page_append_kernel(
    data_ptr,
    scales_ptr,
    slots_ptr,
    cache_ptr,
    n,
    num_slots,
    entries,
    data_stride,
    scale_stride,
    page_stride,
    DATA: tl.constexpr,
    SCALE: tl.constexpr,
    INTERLEAVED: tl.constexpr,
    BLOCK_DATA: tl.constexpr,
    BLOCK_SCALE: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Grid (ceil(n / ROWS),): program g appends tokens g*ROWS... Strides in bytes."""
    t = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    slot = tl.load(slots_ptr + t, mask=t < n, other=-1)
    # A sentinel is dropped before it is divided; -1 // entries would be the last block of nothing.
    live = (slot >= 0) & (slot < num_slots)
    block, place = slot // entries, slot % entries
    no = tl.zeros([ROWS], tl.int32)
    data_at = data_record(block, place, page_stride, DATA, SCALE, INTERLEAVED)
    move_bytes(data_ptr, row_offset(t, data_stride), cache_ptr, data_at, live, DATA, BLOCK_DATA, no)
    scale_at = scale_record(block, place, page_stride, entries, DATA, SCALE, INTERLEAVED)
    move_bytes(scales_ptr, row_offset(t, scale_stride), cache_ptr, scale_at, live, SCALE, BLOCK_SCALE, no)


def page_append(
    data: torch.Tensor,
    scales: torch.Tensor,
    slot_mapping: torch.Tensor,
    cache: torch.Tensor,
    *,
    entries: int,
    interleaved: bool = False,
) -> None:
    """Write each token's records to its place in the cache. In place.

    Args:
        data: [T, data_bytes] uint8 records, rows any distance apart.
        scales: [T, scale_bytes] uint8 records, rows any distance apart.
        slot_mapping: [>= T] int64, ``block * entries + place``; a slot that is negative or past the cache is
            skipped.
        cache: [blocks, page_bytes] uint8, pages any distance apart.
        entries: entries of a page, at least 1.
        interleaved: each scale record behind its data record; by default all data records come first.

    Does not synchronise.

    Raises:
        TypeError, ValueError: an argument out of its contract, by name.
    """
    check_tensor("data", data, ["T", "data_bytes"], BYTES)
    check_tensor("scales", scales, [data.shape[0], "scale_bytes"], BYTES, data)
    if min(data.shape[1], scales.shape[1]) < 1:
        raise ValueError(f"records must have at least one byte, got {data.shape[1]} and {scales.shape[1]}")
    check_rows("data", data)
    check_rows("scales", scales)
    check_tensor("slot_mapping", slot_mapping, ["n"], (torch.int64,), data)
    if slot_mapping.shape[0] < data.shape[0] or not slot_mapping.is_contiguous():
        raise ValueError(
            f"slot_mapping must be contiguous with at least {data.shape[0]} elements, "
            f"got {list(slot_mapping.shape)} with strides {list(slot_mapping.stride())}"
        )
    check_tensor("cache", cache, ["blocks", "page_bytes"], BYTES, data)
    entries = check_cache(cache, entries, data.shape[1], scales.shape[1])
    tokens = data.shape[0]
    rows, warps = row_tile(data.shape[1], tokens)
    launch(
        page_append_kernel,
        (cdiv(tokens, rows),),
        data,
        scales,
        slot_mapping,
        cache,
        tokens,
        cache.shape[0] * entries,
        entries,
        data.stride(0),
        scales.stride(0),
        cache.stride(0),
        DATA=data.shape[1],
        SCALE=scales.shape[1],
        INTERLEAVED=bool(interleaved),
        BLOCK_DATA=next_power_of_2(data.shape[1]),
        BLOCK_SCALE=next_power_of_2(scales.shape[1]),
        ROWS=rows,
        num_warps=warps,
    )
