"""CSA top-k translate: each selected entry of a sequence to its pool row, at the head of the token's slice."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvproof.kernels.arguments import (
    INDEX_DTYPES,
    check_count,
    check_rows,
    check_tensor,
    check_vector,
)
from kvproof.kernels.index_parts import check_positions, visible_groups
from kvproof.kernels.launch import cdiv, launch
from kvproof.kernels.row_index.kernel import compress_row
from kvproof.kernels.shapes import entry_tile
from kvproof.models.index import INT32_MAX
from kvproof.models.row_space import CSA_RATIO


# topk_stride is not specialised on purpose: entries are read and written one element a lane, since the cells
# written start anywhere; a wider read would have to change its layout for the write.
@triton.jit(
    do_not_specialize=[
        "topk_stride",
        "table_stride",
        "num_seqs",
        "columns",
        "num_cells",
        "envelope_rows",
        "window_size",
    ]
)
def csa_translate_kernel(
    topk_ptr,
    tables_ptr,
    positions_ptr,
    indptr_ptr,
    batch_ids_ptr,
    skip_ptr,
    indices_ptr,
    topk_stride,
    table_stride,
    num_seqs,
    columns,
    num_cells,
    envelope_rows,
    window_size,
    TOPK: tl.constexpr,
    CAPACITY: tl.constexpr,
    RATIO: tl.constexpr,
    SKIP_GIVEN: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Grid (tokens, ceil(TOPK / BLOCK_K)). ``skip_ptr`` is None unless SKIP_GIVEN."""
    t = tl.program_id(0)
    k = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    sequence = tl.load(batch_ids_ptr + t)
    pos = tl.load(positions_ptr + t).to(tl.int64)
    start = tl.load(indptr_ptr + t).to(tl.int64)
    end = tl.load(indptr_ptr + t + 1).to(tl.int64)
    # Garbage behind the head is read too, and goes nowhere: waiting for the slice's bounds would cost more.
    entry = tl.load(topk_ptr + t.to(tl.int64) * topk_stride + k, mask=k < TOPK, other=-1)
    if (sequence < 0) | (sequence >= num_seqs):
        return
    tail = tl.load(skip_ptr + t).to(tl.int64) if SKIP_GIVEN else tl.minimum(pos, window_size - 1) + 1
    head = end - start - tl.maximum(tail, 0)

    # Bounds of k, 32 bits: the cells of the head that the buffer has.
    low = tl.minimum(tl.maximum(-start, 0), TOPK).to(tl.int32)
    stop = tl.maximum(tl.minimum(tl.minimum(head, TOPK), num_cells - start), 0).to(tl.int32)
    written = (k >= low) & (k < stop)
    # An entry's group must be complete, and its column in the table. One that is, is not negative, and unsigned
    # numbers are divided by a power of two at less cost.
    listed = tl.minimum(columns.to(tl.int64) * CAPACITY, 2147483647)
    known = written & (entry >= 0) & (entry < visible_groups(pos, listed, RATIO))
    place = entry.to(tl.uint32, bitcast=True)
    column = (place // CAPACITY).to(tl.int32)
    block = tl.load(tables_ptr + sequence.to(tl.int64) * table_stride + column, mask=known, other=-1)
    row = compress_row(block, (place % CAPACITY).to(tl.int32), envelope_rows)
    # Where the entry is not known, the block was not read and is -1, and so is the row.
    row = tl.where(row <= 2147483647, row, -1)
    tl.store(indices_ptr + start + k, row.to(tl.int32), mask=written)


def csa_translate_pack(
    topk_local: torch.Tensor,
    block_tables: torch.Tensor,
    positions: torch.Tensor,
    kv_indptr_csa: torch.Tensor,
    batch_id_per_token: torch.Tensor,
    skip_prefix_len_per_token: torch.Tensor | None,
    kv_indices_csa: torch.Tensor,
    *,
    envelope_rows: int,
    csa_block_capacity: int,
    window_size: int = 0,
) -> None:
    """Write the pool row of each selected entry to the head of its token's slice. In place.

    A slice is a head of entries and a tail of window rows. The tail is ``min(pos + 1, window_size)`` long, or
    ``skip_prefix_len_per_token[t]`` if ``window_size`` is 0; the head is the rest.

    Args:
        topk_local: [T, index_topk] int32 entries of the token's sequence; behind the head they are garbage.
        block_tables: [bs, columns] int32 physical blocks; rows contiguous, any distance apart.
        positions: [>= T] int32 or int64.
        kv_indptr_csa: [>= T + 1] int32 slices of ``kv_indices_csa``.
        batch_id_per_token: [>= T] int32; a token with an id outside ``0..bs-1`` is skipped.
        skip_prefix_len_per_token: [>= T] int32, needed if ``window_size`` is 0.
        kv_indices_csa: [cells] int32.
        envelope_rows: rows of an envelope.
        csa_block_capacity: entries of a block, ``block_size // 4``.
        window_size: window in tokens, or 0.

    Does not synchronise. An entry that the token may not see, that lies past the block table, or whose block is
    negative, becomes -1.

    Raises:
        TypeError, ValueError: an argument out of its contract, by name.
    """
    check_tensor("topk_local", topk_local, ["T", "index_topk"], INDEX_DTYPES)
    tokens, topk = topk_local.shape
    check_rows("topk_local", topk_local)
    check_tensor("block_tables", block_tables, ["bs", "columns"], INDEX_DTYPES, topk_local)
    check_rows("block_tables", block_tables)
    check_positions("positions", positions, tokens, topk_local)
    check_vector("kv_indptr_csa", kv_indptr_csa, tokens + 1, topk_local)
    check_vector("batch_id_per_token", batch_id_per_token, tokens, topk_local)
    check_vector("kv_indices_csa", kv_indices_csa, 0, topk_local)
    window_size = check_count("window_size", window_size, 0, INT32_MAX)
    if window_size == 0 and skip_prefix_len_per_token is None:
        raise ValueError("skip_prefix_len_per_token must be given if window_size is 0")
    skip = None if window_size else skip_prefix_len_per_token
    if skip is not None:
        check_vector("skip_prefix_len_per_token", skip, tokens, topk_local)
    capacity = check_count("csa_block_capacity", csa_block_capacity, 1, INT32_MAX)
    envelope_rows = check_count("envelope_rows", envelope_rows, capacity, INT32_MAX)
    sequences, columns = block_tables.shape
    if sequences == 0 or topk == 0:
        return
    block, warps = entry_tile(topk, tokens)
    launch(
        csa_translate_kernel,
        (tokens, cdiv(topk, block)),
        topk_local,
        block_tables,
        positions,
        kv_indptr_csa,
        batch_id_per_token,
        skip,
        kv_indices_csa,
        topk_local.stride(0),
        block_tables.stride(0),
        sequences,
        columns,
        kv_indices_csa.shape[0],
        envelope_rows,
        window_size,
        TOPK=topk,
        CAPACITY=capacity,
        RATIO=CSA_RATIO,
        SKIP_GIVEN=skip is not None,
        BLOCK_K=block,
        num_warps=warps,
    )
