"""Decode index build: for each token, its window rows at the tail of its slice in every class, and its own row.

A program is one warp with one token. The window's positions follow one another, so a token takes one remainder
by the ring's length, and a lane a comparison.
"""

# Which classes there are is decided when a kernel is compiled.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

from collections.abc import Mapping

import torch
import triton
import triton.language as tl

from kvproof.kernels.arguments import check_count, check_vector
from kvproof.kernels.index_parts import (
    Pair,
    check_geometry,
    check_pair,
    check_positions,
    class_row,
    class_window,
    slice_bounds,
    wrapped,
)
from kvproof.kernels.launch import launch, next_power_of_2
from kvproof.models.row_space import CSA_RATIO, DENSE_RATIO, HCA_RATIO, UnifiedPoolGeometry


@triton.jit
def write_class(
    start,
    end,
    indices_ptr,
    dest_ptr,
    cells,
    t,
    i,
    n,
    slot_row,
    first,
    ring_slots,
    run_rows,
    known,
    RUN: tl.constexpr,
):
    """One class's part of a token: the rows of its n positions to its slice's last n cells, and its own row.

    Args:
        start, end: bounds of the slice.
        slot_row: first row of the slot's ring.
        first: ring position of the oldest of the n positions.
    """
    start = tl.maximum(start, 0)
    cell = end - n + i
    row = class_row(slot_row, wrapped(first + i, ring_slots), run_rows, known, RUN)
    tl.store(indices_ptr + cell, row.to(tl.int32), mask=(i < n) & (cell >= start) & (cell < cells))
    own = class_row(slot_row, wrapped(first + n - 1, ring_slots), run_rows, known, RUN)
    tl.store(dest_ptr + t, own.to(tl.int32))


# Only the runs' lengths are constants of the binary: they are divisors, and a model has few of them.
@triton.jit(
    do_not_specialize=[
        "num_seqs",
        "win",
        "slot_low",
        "slot_stop",
        "slot_rows",
        "ring_slots",
        "swa_ring_start",
        "csa_ring_start",
        "hca_ring_start",
        "swa_run_rows",
        "csa_run_rows",
        "hca_run_rows",
        "swa_cells",
        "csa_cells",
        "hca_cells",
    ]
)
def decode_indices_kernel(
    slots_ptr,
    batch_ids_ptr,
    positions_ptr,
    swa_indptr_ptr,
    csa_indptr_ptr,
    hca_indptr_ptr,
    swa_indices_ptr,
    csa_indices_ptr,
    hca_indices_ptr,
    swa_dest_ptr,
    csa_dest_ptr,
    hca_dest_ptr,
    num_seqs,
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
    swa_cells,
    csa_cells,
    hca_cells,
    SWA: tl.constexpr,
    CSA: tl.constexpr,
    HCA: tl.constexpr,
    SWA_RUN: tl.constexpr,
    CSA_RUN: tl.constexpr,
    HCA_RUN: tl.constexpr,
    BLOCK_W: tl.constexpr,
):
    """Grid (tokens,). Pointers of a class that is off are None."""
    t = tl.program_id(0)
    sequence = tl.load(batch_ids_ptr + t)
    at = tl.load(positions_ptr + t).to(tl.int64)
    # Everything is read before anything is written: no load can move past a store.
    if SWA:
        swa_start, swa_end = slice_bounds(swa_indptr_ptr, t)
    if CSA:
        csa_start, csa_end = slice_bounds(csa_indptr_ptr, t)
    if HCA:
        hca_start, hca_end = slice_bounds(hca_indptr_ptr, t)
    if (sequence < 0) | (sequence >= num_seqs):
        return
    slot = tl.load(slots_ptr + sequence).to(tl.int64)
    known = (slot >= slot_low) & (slot < slot_stop) & (at >= 0)
    # Below -1 the window is as empty as at -1, and nothing can wrap.
    pos = tl.maximum(at, -1)
    n = (tl.minimum(pos, win - 1) + 1).to(tl.int32)
    # 0 at position -1, where n is 0.
    first = ((pos - n + 1) % ring_slots).to(tl.int32)
    i = tl.arange(0, BLOCK_W)
    base = slot * slot_rows
    if SWA:
        write_class(
            swa_start,
            swa_end,
            swa_indices_ptr,
            swa_dest_ptr,
            swa_cells,
            t,
            i,
            n,
            base + swa_ring_start,
            first,
            ring_slots,
            swa_run_rows,
            known,
            SWA_RUN,
        )
    if CSA:
        write_class(
            csa_start,
            csa_end,
            csa_indices_ptr,
            csa_dest_ptr,
            csa_cells,
            t,
            i,
            n,
            base + csa_ring_start,
            first,
            ring_slots,
            csa_run_rows,
            known,
            CSA_RUN,
        )
    if HCA:
        write_class(
            hca_start,
            hca_end,
            hca_indices_ptr,
            hca_dest_ptr,
            hca_cells,
            t,
            i,
            n,
            base + hca_ring_start,
            first,
            ring_slots,
            hca_run_rows,
            known,
            HCA_RUN,
        )


def write_v4_paged_decode_indices(
    *,
    state_slot_per_seq: torch.Tensor,
    batch_id_per_token: torch.Tensor,
    positions: torch.Tensor,
    swa_indptr: torch.Tensor | None,
    csa_indptr: torch.Tensor | None,
    hca_indptr: torch.Tensor | None,
    swa_indices: torch.Tensor | None,
    csa_indices: torch.Tensor | None,
    hca_indices: torch.Tensor | None,
    dest_rows: Mapping[int, torch.Tensor],
    T: int,
    win: int,
    geometry: UnifiedPoolGeometry,
) -> None:
    """Write the window part of every token's slice in each class, and the row of its own KV. In place.

    A token at position p of a live sequence gets ``n = min(p + 1, win)`` rows, for positions p-n+1..p in order,
    in the last n cells of its slice; the cells before them belong to other writers. ``dest_rows[ratio][t]`` is
    the last of those rows.

    Args:
        state_slot_per_seq: [bs] int32 physical slots.
        batch_id_per_token: [>= T] int32; a token with an id outside ``0..bs-1`` is skipped.
        positions: [>= T] int32 or int64.
        swa_indptr, csa_indptr, hca_indptr: [>= T + 1] int32 slices of the dense, CSA and HCA buffer.
        swa_indices, csa_indices, hca_indices: int32 buffers. A class whose pair is None, or that the geometry
            lacks, is off: nothing of it is read or written.
        dest_rows: by compress ratio [>= T] int32, for each class that is on. Defined after the launch only
            where the token is live.
        T: tokens, padded ones among them.
        win: window in tokens, at most the geometry's ring.
        geometry: the pool's row space. Only what does not move with the pool's boundary is used.

    Does not synchronise. A slot that the plane has not gives -1.

    Raises:
        TypeError, ValueError: an argument out of its contract, by name.
    """
    win = check_geometry(geometry, win)
    tokens = check_count("T", T, 0)
    check_vector("state_slot_per_seq", state_slot_per_seq, 0, state_slot_per_seq)
    check_vector("batch_id_per_token", batch_id_per_token, tokens, state_slot_per_seq)
    check_positions("positions", positions, tokens, state_slot_per_seq)
    pairs = {
        DENSE_RATIO: ("swa", swa_indptr, swa_indices),
        CSA_RATIO: ("csa", csa_indptr, csa_indices),
        HCA_RATIO: ("hca", hca_indptr, hca_indices),
    }
    on = {
        ratio: _check_class(pair, geometry, ratio, dest_rows, tokens, batch_id_per_token)
        for ratio, pair in pairs.items()
    }
    if not any(on.values()) or state_slot_per_seq.shape[0] == 0:
        return
    windows = [class_window(geometry, ratio, present) for ratio, present in on.items()]
    buffers = [pair if on[ratio] else (pair[0], None, None) for ratio, pair in pairs.items()]
    launch(
        decode_indices_kernel,
        (tokens,),
        state_slot_per_seq,
        batch_id_per_token,
        positions,
        *(indptr for _, indptr, _ in buffers),
        *(indices for _, _, indices in buffers),
        *(dest_rows[ratio] if present else None for ratio, present in on.items()),
        state_slot_per_seq.shape[0],
        win,
        geometry.slot_origin,
        geometry.slot_positions,
        geometry.slot_rows,
        geometry.ring_slots,
        *(window.ring_start for window in windows),
        *(window.run_rows for window in windows),
        *(0 if indices is None else indices.shape[0] for _, _, indices in buffers),
        **dict(zip(("SWA", "CSA", "HCA"), on.values(), strict=True)),
        **dict(zip(("SWA_RUN", "CSA_RUN", "HCA_RUN"), (w.run for w in windows), strict=True)),
        BLOCK_W=next_power_of_2(win),
        num_warps=1,
    )


def _check_class(
    pair: Pair,
    geometry: UnifiedPoolGeometry,
    ratio: int,
    dest_rows: Mapping[int, torch.Tensor],
    tokens: int,
    like: torch.Tensor,
) -> bool:
    """Refuse a class's buffers if they do not fit; return whether the class is on."""
    if not check_pair(pair, geometry, ratio, tokens, like):
        return False
    if dest_rows.get(ratio) is None:
        raise ValueError(f"dest_rows must have a buffer for ratio {ratio}, whose {pair[0]} buffers are given")
    check_vector(f"dest_rows[{ratio}]", dest_rows[ratio], tokens, like)
    return True


def decode_indices(
    *,
    dest_rows_swa: torch.Tensor | None,
    dest_rows_csa: torch.Tensor | None,
    dest_rows_hca: torch.Tensor | None,
    **arguments: object,
) -> None:
    """:func:`write_v4_paged_decode_indices` with the destinations as arguments of their own."""
    given = {DENSE_RATIO: dest_rows_swa, CSA_RATIO: dest_rows_csa, HCA_RATIO: dest_rows_hca}
    dest_rows = {ratio: rows for ratio, rows in given.items() if rows is not None}
    write_v4_paged_decode_indices(dest_rows=dest_rows, **arguments)  # type: ignore[arg-type]
