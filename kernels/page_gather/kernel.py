"""Gathering from the paged cache: one program copies the records of a few entries of one sequence."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvproof.kernels.arguments import INDEX_DTYPES, check_contiguous, check_rows, check_tensor
from kvproof.kernels.launch import cdiv, launch, next_power_of_2
from kvproof.kernels.page_parts import BYTES, check_cache, data_record, move_bytes, scale_record
from kvproof.kernels.row_index.kernel import row_offset
from kvproof.kernels.shapes import row_tile


@triton.jit(do_not_specialize=["places", "columns", "num_blocks", "entries", "table_stride"])
def page_gather_kernel(
    cache_ptr,
    tables_ptr,
    starts_ptr,
    counts_ptr,
    data_ptr,
    scales_ptr,
    places,
    columns,
    num_blocks,
    entries,
    table_stride,
    page_stride,
    DATA: tl.constexpr,
    SCALE: tl.constexpr,
    INTERLEAVED: tl.constexpr,
    BLOCK_DATA: tl.constexpr,
    BLOCK_SCALE: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Grid (sequences, ceil(places / ROWS)). Strides in bytes, of the table in elements."""
    b = tl.program_id(0)
    count = tl.load(counts_ptr + b)
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    wanted = (i < count) & (i < places)
    entry = tl.load(starts_ptr + b).to(tl.int64) + i
    column = entry // entries
    listed = wanted & (entry >= 0) & (column < columns)
    block = tl.load(tables_ptr + row_offset(b, table_stride) + column, mask=listed, other=-1)
    missing = ((block < 0) | (block >= num_blocks)).to(tl.int32)
    place = entry % entries
    row = row_offset(b, places) + i
    data_at = data_record(block, place, page_stride, DATA, SCALE, INTERLEAVED)
    move_bytes(cache_ptr, data_at, data_ptr, row_offset(row, DATA), wanted, DATA, BLOCK_DATA, missing)
    scale_at = scale_record(block, place, page_stride, entries, DATA, SCALE, INTERLEAVED)
    move_bytes(cache_ptr, scale_at, scales_ptr, row_offset(row, SCALE), wanted, SCALE, BLOCK_SCALE, missing)


def page_gather(
    cache: torch.Tensor,
    block_tables: torch.Tensor,
    starts: torch.Tensor,
    counts: torch.Tensor,
    data: torch.Tensor,
    scales: torch.Tensor,
    *,
    entries: int,
    interleaved: bool = False,
) -> None:
    """Copy the records of entries ``starts[b] .. starts[b] + counts[b] - 1`` of each sequence. In place.

    Args:
        cache: [blocks, page_bytes] uint8, pages any distance apart.
        block_tables: [bs, columns] int32 physical blocks; rows contiguous, any distance apart.
        starts, counts: [bs] int32.
        data: [bs, places, data_bytes] uint8, contiguous; entry ``starts[b] + i`` goes to place i.
        scales: [bs, places, scale_bytes] uint8, contiguous.
        entries: entries of a page, at least 1.
        interleaved: each scale record behind its data record; by default all data records come first.

    An entry before 0, past its block table or in a block outside the cache gives zeros. Places past a
    sequence's count keep what they held. Does not synchronise.

    Raises:
        TypeError, ValueError: an argument out of its contract, by name.
    """
    check_tensor("cache", cache, ["blocks", "page_bytes"], BYTES)
    check_tensor("block_tables", block_tables, ["bs", "columns"], INDEX_DTYPES, cache)
    check_rows("block_tables", block_tables)
    sequences, columns = block_tables.shape
    check_tensor("starts", starts, [sequences], INDEX_DTYPES, cache)
    check_tensor("counts", counts, [sequences], INDEX_DTYPES, cache)
    check_tensor("data", data, [sequences, "places", "data_bytes"], BYTES, cache)
    check_tensor("scales", scales, [sequences, data.shape[1], "scale_bytes"], BYTES, cache)
    for name, value in (("starts", starts), ("counts", counts), ("data", data), ("scales", scales)):
        check_contiguous(name, value)
    if min(data.shape[2], scales.shape[2]) < 1:
        raise ValueError(f"records must have at least one byte, got {data.shape[2]} and {scales.shape[2]}")
    entries = check_cache(cache, entries, data.shape[2], scales.shape[2])
    if min(cache.shape[0], columns) < 1:
        raise ValueError(
            f"cache and block_tables must not be empty, got {list(cache.shape)} and {columns} columns"
        )
    places = data.shape[1]
    rows, warps = row_tile(data.shape[2], sequences * places)
    launch(
        page_gather_kernel,
        (sequences, cdiv(places, rows)),
        cache,
        block_tables,
        starts,
        counts,
        data,
        scales,
        places,
        columns,
        cache.shape[0],
        entries,
        block_tables.stride(0),
        cache.stride(0),
        DATA=data.shape[2],
        SCALE=scales.shape[2],
        INTERLEAVED=bool(interleaved),
        BLOCK_DATA=next_power_of_2(data.shape[2]),
        BLOCK_SCALE=next_power_of_2(scales.shape[2]),
        ROWS=rows,
        num_warps=warps,
    )
