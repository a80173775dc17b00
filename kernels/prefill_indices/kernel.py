"""Prefill index build: for each token its in-chunk rows, its window rows before the chunk, and its HCA groups."""

# Which classes there are is decided when a kernel is compiled.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvproof.kernels.arguments import INDEX_DTYPES, check_count, check_rows, check_tensor, check_vector
from kvproof.kernels.index_parts import (
    check_geometry,
    check_hca,
    check_pair,
    check_positions,
    class_row,
    class_window,
    slice_bounds,
    visible_groups,
    wrapped,
    write_groups,
)
from kvproof.kernels.launch import launch, next_power_of_2
from kvproof.kernels.shapes import PREFILL_GROUPS, group_splits
from kvproof.models.row_space import CSA_RATIO, DENSE_RATIO, HCA_RATIO, UnifiedPoolGeometry


@triton.jit
def store_rows(indices_ptr, cells, start, end, cell, live, row):
    """Rows to the cells of slice ``start..end-1``, where they are live and the buffer has them."""
    inside = live & (cell >= tl.maximum(start, 0)) & (cell < end) & (cell < cells)
    tl.store(indices_ptr + cell, row.to(tl.int32), mask=inside)


@triton.jit(
    do_not_specialize=[
        "table_stride",
        "num_tokens",
        "num_seqs",
        "columns",
        "win",
        "slot_low",
        "slot_stop",
        "slot_rows",
        "ring_slots",
        "swa_ring_start",
        "csa_ring_start",
        "hca_ring_start",
        "csa_run_rows",
        "hca_run_rows",
        "swa_run_rows",
        "extend_cells",
        "swa_cells",
        "csa_cells",
        "hca_cells",
        "envelope_rows",
        "blocks",
    ]
)
def prefill_indices_kernel(
    positions_ptr,
    batch_ids_ptr,
    chunk_start_ptr,
    first_row_ptr,
    slots_ptr,
    committed_ptr,
    tables_ptr,
    extend_indptr_ptr,
    swa_indptr_ptr,
    csa_indptr_ptr,
    hca_indptr_ptr,
    extend_ptr,
    swa_ptr,
    csa_ptr,
    hca_ptr,
    table_stride,
    num_tokens,
    num_seqs,
    columns,
    win,
    slot_low,
    slot_stop,
    slot_rows,
    ring_slots,
    swa_ring_start,
    csa_ring_start,
    hca_ring_start,
    swa_run_rows,
    csa_run_rows,
    hca_run_rows,
    extend_cells,
    swa_cells,
    csa_cells,
    hca_cells,
    envelope_rows,
    blocks,
    SWA: tl.constexpr,
    CSA: tl.constexpr,
    HCA: tl.constexpr,
    SWA_RUN: tl.constexpr,
    CSA_RUN: tl.constexpr,
    HCA_RUN: tl.constexpr,
    RATIO: tl.constexpr,
    PER_BLOCK: tl.constexpr,
    BLOCK_W: tl.constexpr,
    BLOCK_G: tl.constexpr,
):
    """Grid (tokens, splits): program (t, 0) writes token t's rows and windows, each its share of the groups.

    Pointers of a class that is off are None.
    """
    t = tl.program_id(0)
    sequence = tl.load(batch_ids_ptr + t)
    # So far below 0 no position is a token's, and nothing that follows can wrap.
    pos = tl.maximum(tl.load(positions_ptr + t).to(tl.int64), -(2**62))
    # Everything is read before anything is written: no load can move past a store.
    start, end = slice_bounds(extend_indptr_ptr, t)
    if SWA:
        swa_start, swa_end = slice_bounds(swa_indptr_ptr, t)
    if CSA:
        csa_start, csa_end = slice_bounds(csa_indptr_ptr, t)
    if HCA:
        hca_start, hca_end = slice_bounds(hca_indptr_ptr, t)
    if (sequence < 0) | (sequence >= num_seqs):
        return
    chunk_start = tl.load(chunk_start_ptr + sequence).to(tl.int64)
    first_row = tl.load(first_row_ptr + sequence).to(tl.int64)
    slot = tl.load(slots_ptr + sequence).to(tl.int64)
    if HCA:
        committed = tl.load(committed_ptr + sequence)
    low = tl.maximum(pos - (win - 1), 0)
    # At most a window, wherever the chunk starts, so 32 bits hold it.
    before = tl.maximum(tl.minimum(chunk_start - 1, pos) + 1 - tl.minimum(low, 2**32), 0).to(tl.int32)

    if tl.program_id(1) == 0:
        i = tl.arange(0, BLOCK_W)
        own = tl.maximum(pos - (win - 1), chunk_start)
        row = first_row + (own - chunk_start) + i
        row = tl.where((row >= 0) & (row < num_tokens), row, -1)
        store_rows(extend_ptr, extend_cells, start, end, start + i, i < pos - own + 1, row)
        # Only a chunk's first tokens see behind it.
        if before > 0:
            known = (slot >= slot_low) & (slot < slot_stop)
            base = slot * slot_rows
            ring_pos = wrapped((low % ring_slots).to(tl.int32) + i, ring_slots)
            live = i < before
            if SWA:
                swa_row = class_row(base + swa_ring_start, ring_pos, swa_run_rows, known, SWA_RUN)
                store_rows(swa_ptr, swa_cells, swa_start, swa_end, swa_start + i, live, swa_row)
            if CSA:
                # The head is for the selected entries.
                csa_row = class_row(base + csa_ring_start, ring_pos, csa_run_rows, known, CSA_RUN)
                store_rows(csa_ptr, csa_cells, csa_start, csa_end, csa_end - before + i, live, csa_row)
            if HCA:
                hca_row = class_row(base + hca_ring_start, ring_pos, hca_run_rows, known, HCA_RUN)
                store_rows(hca_ptr, hca_cells, hca_start, hca_end, hca_start + i, live, hca_row)
    if HCA:
        count = visible_groups(pos, committed, RATIO)
        write_groups(
            tables_ptr + sequence.to(tl.int64) * table_stride,
            hca_ptr,
            hca_start + before,
            tl.maximum(hca_start, 0),
            tl.minimum(hca_end, hca_cells),
            count,
            columns,
            envelope_rows,
            blocks,
            PER_BLOCK,
            BLOCK_G,
        )


def write_v4_paged_prefill_indices(
    *,
    positions: torch.Tensor,
    bid_per_token: torch.Tensor,
    chunk_start_per_seq: torch.Tensor,
    cu_seqlens_q_per_seq: torch.Tensor,
    state_slot_per_seq: torch.Tensor,
    n_committed_hca_per_seq: torch.Tensor,
    block_tables: torch.Tensor,
    extend_indptr: torch.Tensor,
    prefix_swa_indptr: torch.Tensor | None,
    prefix_csa_indptr: torch.Tensor | None,
    prefix_hca_indptr: torch.Tensor | None,
    extend_indices: torch.Tensor,
    prefix_swa_indices: torch.Tensor | None,
    prefix_csa_indices: torch.Tensor | None,
    prefix_hca_indices: torch.Tensor | None,
    T: int,
    win: int,
    geometry: UnifiedPoolGeometry,
    hca_ratio: int = HCA_RATIO,
    hca_rows_per_block: int = 1,
) -> None:
    """Write what every token of a prefill forward reads. In place.

    A token at position p, whose chunk starts at c, gets in its slices: of ``extend_indices`` the rows of positions
    max(c, p-win+1)..p in this forward's kv; of each prefix buffer the window rows of positions
    max(p-win+1, 0)..c-1, at the head (in CSA at the tail, since its head is for the selected entries); of
    ``prefix_hca_indices`` behind them the rows of the min((p+1) div 128, committed) complete groups.

    Args:
        positions: [>= T] int32 or int64.
        bid_per_token: [>= T] int32; a token with an id outside ``0..bs-1`` is skipped.
        chunk_start_per_seq: [bs] int32 first position of each chunk.
        cu_seqlens_q_per_seq: [>= bs] int32 first row of each sequence in this forward's kv of T rows.
        state_slot_per_seq, n_committed_hca_per_seq: [>= bs] int32.
        block_tables: [>= bs, columns] int32; rows contiguous, any distance apart.
        extend_indptr, prefix_*_indptr: [>= T + 1] int32 slices of the buffers.
        extend_indices, prefix_*_indices: int32 buffers. A class whose pair is None, or that the geometry lacks,
            is off: nothing of it is read or written.
        T: tokens, padded ones among them.
        win: window in tokens, at most the geometry's ring.
        geometry: the pool's row space. Only what does not move with the pool's boundary is used.
        hca_ratio, hca_rows_per_block: 128, and the groups of a block; other values are refused.

    Does not synchronise. A slot or block that the plane has not gives -1.

    Raises:
        TypeError, ValueError: an argument out of its contract, by name.
    """
    win = check_geometry(geometry, win)
    tokens = check_count("T", T, 0)
    check_tensor("chunk_start_per_seq", chunk_start_per_seq, ["bs"], INDEX_DTYPES)
    like, sequences = chunk_start_per_seq, chunk_start_per_seq.shape[0]
    check_vector("chunk_start_per_seq", chunk_start_per_seq, 0, like)
    check_positions("positions", positions, tokens, like)
    check_vector("bid_per_token", bid_per_token, tokens, like)
    for name, value in (
        ("cu_seqlens_q_per_seq", cu_seqlens_q_per_seq),
        ("state_slot_per_seq", state_slot_per_seq),
        ("n_committed_hca_per_seq", n_committed_hca_per_seq),
    ):
        check_vector(name, value, sequences, like)
    check_tensor("block_tables", block_tables, ["at least bs", "columns"], INDEX_DTYPES, like)
    check_rows("block_tables", block_tables)
    if block_tables.shape[0] < sequences:
        raise ValueError(f"block_tables must have at least {sequences} rows, got {block_tables.shape[0]}")
    check_vector("extend_indptr", extend_indptr, tokens + 1, like)
    check_vector("extend_indices", extend_indices, 0, like)
    pairs = {
        DENSE_RATIO: ("prefix_swa", prefix_swa_indptr, prefix_swa_indices),
        CSA_RATIO: ("prefix_csa", prefix_csa_indptr, prefix_csa_indices),
        HCA_RATIO: ("prefix_hca", prefix_hca_indptr, prefix_hca_indices),
    }
    on = {ratio: check_pair(pair, geometry, ratio, tokens, like) for ratio, pair in pairs.items()}
    if on[HCA_RATIO]:
        check_hca(geometry, hca_ratio, hca_rows_per_block)
    if sequences == 0:
        return
    windows = [class_window(geometry, ratio, present) for ratio, present in on.items()]
    buffers = [pair if on[ratio] else (pair[0], None, None) for ratio, pair in pairs.items()]
    columns = block_tables.shape[1]
    launch(
        prefill_indices_kernel,
        (tokens, group_splits(tokens, columns * hca_rows_per_block, PREFILL_GROUPS) if on[HCA_RATIO] else 1),
        positions,
        bid_per_token,
        chunk_start_per_seq,
        cu_seqlens_q_per_seq,
        state_slot_per_seq,
        n_committed_hca_per_seq,
        block_tables,
        extend_indptr,
        *(indptr for _, indptr, _ in buffers),
        extend_indices,
        *(indices for _, _, indices in buffers),
        block_tables.stride(0),
        tokens,
        sequences,
        columns,
        win,
        geometry.slot_origin,
        geometry.slot_positions,
        geometry.slot_rows,
        geometry.ring_slots,
        *(window.ring_start for window in windows),
        *(window.run_rows for window in windows),
        extend_indices.shape[0],
        *(0 if indices is None else indices.shape[0] for _, _, indices in buffers),
        geometry.envelope_rows,
        geometry.plane_rows // max(geometry.envelope_rows, 1),
        **dict(zip(("SWA", "CSA", "HCA"), on.values(), strict=True)),
        **dict(zip(("SWA_RUN", "CSA_RUN", "HCA_RUN"), (w.run for w in windows), strict=True)),
        RATIO=HCA_RATIO,
        PER_BLOCK=max(geometry.block_size // HCA_RATIO, 1),
        BLOCK_W=next_power_of_2(win),
        BLOCK_G=PREFILL_GROUPS,
        num_warps=1,
    )
