"""HCA head: the complete groups of each decode token to the head of its slice, without a copy from the host."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvproof.kernels.arguments import INDEX_DTYPES, check_count, check_rows, check_tensor, check_vector
from kvproof.kernels.index_parts import check_geometry, check_positions, visible_groups, write_groups
from kvproof.kernels.launch import launch
from kvproof.kernels.shapes import HEAD_GROUPS, group_splits
from kvproof.models.row_space import HCA_RATIO, UnifiedPoolGeometry


@triton.jit(
    do_not_specialize=["table_stride", "num_seqs", "columns", "num_cells", "win", "envelope_rows", "blocks"]
)
def hca_head_kernel(
    tables_ptr,
    committed_ptr,
    batch_ids_ptr,
    positions_ptr,
    indptr_ptr,
    indices_ptr,
    table_stride,
    num_seqs,
    columns,
    num_cells,
    win,
    envelope_rows,
    blocks,
    RATIO: tl.constexpr,
    PER_BLOCK: tl.constexpr,
    BLOCK_G: tl.constexpr,
):
    """Grid (tokens, splits): the programs of a token share its groups."""
    t = tl.program_id(0)
    sequence = tl.load(batch_ids_ptr + t)
    pos = tl.load(positions_ptr + t).to(tl.int64)
    start = tl.load(indptr_ptr + t).to(tl.int64)
    end = tl.load(indptr_ptr + t + 1).to(tl.int64)
    if (sequence < 0) | (sequence >= num_seqs):
        return
    window = tl.maximum(tl.minimum(pos, win - 1) + 1, 0)
    write_groups(
        tables_ptr + sequence.to(tl.int64) * table_stride,
        indices_ptr,
        start,
        tl.maximum(start, 0),
        tl.minimum(end - window, num_cells),
        visible_groups(pos, tl.load(committed_ptr + sequence), RATIO),
        columns,
        envelope_rows,
        blocks,
        PER_BLOCK,
        BLOCK_G,
    )


def write_v4_paged_decode_hca_head(
    *,
    block_tables: torch.Tensor,
    n_committed_hca_per_seq: torch.Tensor,
    batch_id_per_token: torch.Tensor,
    positions: torch.Tensor,
    hca_indptr: torch.Tensor,
    hca_indices: torch.Tensor,
    T: int,
    win: int,
    geometry: UnifiedPoolGeometry,
) -> None:
    """Write the pool rows of the groups that each token sees to the head of its slice. In place.

    A token at position p sees the first ``min((p + 1) div 128, committed)`` groups of its sequence; group g is
    row ``g mod (block_size div 128)`` of block ``block_tables[seq, g div (block_size div 128)]``. The last
    ``min(p + 1, win)`` cells of the slice are the window's and stay.

    Args:
        block_tables: [bs, columns] int32; rows contiguous, any distance apart.
        n_committed_hca_per_seq: [>= bs] int32.
        batch_id_per_token: [>= T] int32; a token with an id outside ``0..bs-1`` is skipped.
        positions: [>= T] int32 or int64.
        hca_indptr: [>= T + 1] int32 slices of ``hca_indices``.
        hca_indices: [cells] int32.
        T: tokens, padded ones among them.
        win: window in tokens, at most the geometry's ring.
        geometry: the pool's row space; without HCA layers nothing is written.

    Does not synchronise. A block that the plane has not gives -1.

    Raises:
        TypeError, ValueError: an argument out of its contract, by name.
    """
    win = check_geometry(geometry, win)
    tokens = check_count("T", T, 0)
    check_tensor("block_tables", block_tables, ["bs", "columns"], INDEX_DTYPES)
    check_rows("block_tables", block_tables)
    sequences, columns = block_tables.shape
    check_vector("n_committed_hca_per_seq", n_committed_hca_per_seq, sequences, block_tables)
    check_vector("batch_id_per_token", batch_id_per_token, tokens, block_tables)
    check_positions("positions", positions, tokens, block_tables)
    check_vector("hca_indptr", hca_indptr, tokens + 1, block_tables)
    check_vector("hca_indices", hca_indices, 0, block_tables)
    if sequences == 0 or HCA_RATIO not in geometry.classes:
        return
    per_block = geometry.classes[HCA_RATIO].block_rows
    launch(
        hca_head_kernel,
        (tokens, group_splits(tokens, columns * per_block, HEAD_GROUPS)),
        block_tables,
        n_committed_hca_per_seq,
        batch_id_per_token,
        positions,
        hca_indptr,
        hca_indices,
        block_tables.stride(0),
        sequences,
        columns,
        hca_indices.shape[0],
        win,
        geometry.envelope_rows,
        geometry.plane_rows // geometry.envelope_rows,
        RATIO=HCA_RATIO,
        PER_BLOCK=per_block,
        BLOCK_G=HEAD_GROUPS,
        num_warps=2,
    )
