"""Window write, row scatter, window gather, state update and CSA translation of the stand-in package."""

# ruff: noqa: SIM102, SIM108  (a fault is one branch around one line of the right kernel)
from __future__ import annotations

import torch
import triton
import triton.language as tl

from standin.layout import Window


@triton.jit
def _window_row(slot, pos, start, slot_rows, ring, stride, run_rows, FAULT: tl.constexpr):
    modulus = ring - 1 if FAULT == "short ring" else ring
    place = pos % tl.maximum(modulus, 1)
    run = place // stride
    step = stride if FAULT == "runs touch" else run_rows
    return slot.to(tl.int64) * slot_rows + start + run.to(tl.int64) * step + place % stride


@triton.jit
def _write_kernel(
    kv, positions, cu, slots, pool, kv_stride, pool_stride, rows, most, start, slot_rows, ring, stride, run_rows,
    D: tl.constexpr, BLOCK: tl.constexpr, FAULT: tl.constexpr,
):  # fmt: skip
    sequence, place = tl.program_id(0), tl.program_id(1)
    first, stop = tl.load(cu + sequence), tl.load(cu + sequence + 1)
    if FAULT != "first tokens":
        first = tl.maximum(first, stop - most)
    token = first + place
    if token >= stop:
        return
    slot, pos = tl.load(slots + sequence), tl.load(positions + token)
    if FAULT != "sentinel used":
        if (slot < 0) | (pos < 0):
            return
    row = _window_row(slot, pos, start, slot_rows, ring, stride, run_rows, FAULT)
    if FAULT != "no bound":
        if (row < 0) | (row >= rows):
            return
    columns = tl.arange(0, BLOCK)
    live = columns < D
    value = tl.load(kv + token.to(tl.int64) * kv_stride + columns, mask=live)
    if FAULT == "narrow offset":
        tl.store(pool + row.to(tl.int32) * pool_stride + columns, value, mask=live)
    else:
        tl.store(pool + row * pool_stride + columns, value, mask=live)


def swa_write(
    kv: torch.Tensor,
    positions: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    state_slot_per_seq: torch.Tensor,
    pool: torch.Tensor,
    window: Window,
    write_per_batch: int,
    fault: str = "",
) -> None:
    """The last ``write_per_batch`` tokens of each sequence to their window rows."""
    sequences, columns = state_slot_per_seq.shape[0], kv.shape[1]
    if not sequences or not write_per_batch:
        return
    stride = columns if fault == "dense rows" else pool.stride(0)
    _write_kernel[(sequences, write_per_batch)](
        kv, positions, cu_seqlens_q, state_slot_per_seq, pool, kv.stride(0), stride, pool.shape[0],
        write_per_batch, window.ring_start, window.slot_rows, window.ring_slots, window.ring_stride,
        window.run_rows,
        D=columns, BLOCK=triton.next_power_of_2(columns), FAULT=fault,
    )  # fmt: skip


@triton.jit
def _scatter_kernel(
    kv, dest, ids, pool, kv_stride, pool_stride, rows, D: tl.constexpr, BLOCK: tl.constexpr, FAULT: tl.constexpr
):
    token = tl.program_id(0)
    if FAULT != "padding written":
        if tl.load(ids + token) < 0:
            return
    row = tl.load(dest + token)
    if FAULT != "negative row":
        if row < 0:
            return
    if FAULT != "no bound":
        if row >= rows:
            return
    columns = tl.arange(0, BLOCK)
    live = columns < D
    if FAULT == "wide store":
        live = columns < BLOCK
    value = tl.load(kv + token.to(tl.int64) * kv_stride + columns, mask=columns < D)
    tl.store(pool + row.to(tl.int64) * pool_stride + columns, value, mask=live)


def swa_scatter_rows(
    kv: torch.Tensor,
    dest_rows: torch.Tensor,
    batch_id_per_token: torch.Tensor,
    pool: torch.Tensor,
    fault: str = "",
) -> None:
    """Each live token's row to its destination."""
    tokens, columns = kv.shape
    if not tokens:
        return
    _scatter_kernel[(tokens,)](
        kv, dest_rows, batch_id_per_token, pool, kv.stride(0), pool.stride(0), pool.shape[0],
        D=columns, BLOCK=triton.next_power_of_2(columns) * (2 if fault == "wide store" else 1), FAULT=fault,
    )  # fmt: skip


@triton.jit
def _gather_kernel(
    pool, slots, anchors, out, pool_stride, rows, start, slot_rows, ring, stride, run_rows, W,
    D: tl.constexpr, BLOCK: tl.constexpr, FAULT: tl.constexpr,
):  # fmt: skip
    request, cell = tl.program_id(0), tl.program_id(1)
    slot, anchor = tl.load(slots + request), tl.load(anchors + request)
    pos = anchor - (W - 1) + cell
    if FAULT == "newest first":
        pos = anchor - cell
    live = (pos >= 0) & (slot >= 0)
    if FAULT == "before the first":
        live = slot >= 0
    row = _window_row(slot, tl.maximum(pos, 0), start, slot_rows, ring, stride, run_rows, FAULT)
    if FAULT != "stale slot":
        live = live & (row >= 0) & (row < rows)
    columns = tl.arange(0, BLOCK)
    value = tl.load(pool + row * pool_stride + columns, mask=(columns < D) & live, other=0)
    at = (request.to(tl.int64) * W + cell) * D
    tl.store(out + at + columns, value, mask=columns < D)


def window_gather(
    pool: torch.Tensor,
    state_slot_per_seq: torch.Tensor,
    anchor_pos: torch.Tensor,
    draft_window: int,
    window: Window,
    fault: str = "",
) -> torch.Tensor:
    """The last ``draft_window`` rows of each request, oldest first."""
    requests, columns = state_slot_per_seq.shape[0], pool.shape[1]
    out = torch.empty((requests, draft_window, columns), dtype=pool.dtype, device=pool.device)
    if out.numel():
        _gather_kernel[(requests, draft_window)](
            pool, state_slot_per_seq, anchor_pos, out, pool.stride(0), pool.shape[0], window.ring_start,
            window.slot_rows, window.ring_slots, window.ring_stride, window.run_rows, draft_window,
            D=columns, BLOCK=triton.next_power_of_2(columns), FAULT=fault,
        )  # fmt: skip
    return out


@triton.jit
def _state_kernel(
    kv, score, ape, kv_state, score_state, plan, slots, n_tokens, n_slots, n_batch, kv_stride, score_stride,
    kv_slot, score_slot, ring, dim, RATIO: tl.constexpr, BLOCK: tl.constexpr, FAULT: tl.constexpr,
):  # fmt: skip
    item = tl.program_id(0)
    token, batch = tl.load(plan + item * 4), tl.load(plan + item * 4 + 1)
    pos = tl.load(plan + item * 4 + 2)
    if FAULT == "padding row":
        token, batch = tl.maximum(token, 0), tl.maximum(batch, 0)
    elif pos < 0:
        return
    if (token < 0) | (token >= n_tokens) | (batch < 0) | (batch >= n_batch):
        return
    slot = tl.load(slots + batch)
    if (slot < 0) | (slot >= n_slots):
        return
    modulus = 2 * RATIO if FAULT == "ring without drafts" else ring
    place = tl.maximum(pos, 0) % modulus
    term = tl.maximum(pos, 0) % RATIO
    if FAULT == "no ape":
        term = 0
    at = slot.to(tl.int64)
    columns = tl.arange(0, BLOCK)
    live = columns < dim
    value = tl.load(kv + token.to(tl.int64) * kv_stride + columns, mask=live).to(tl.float32)
    weight = tl.load(score + token.to(tl.int64) * score_stride + columns, mask=live).to(tl.float32)
    weight += tl.load(ape + term * dim + columns, mask=live).to(tl.float32)
    tl.store(kv_state + at * kv_slot + place.to(tl.int64) * dim + columns, value, mask=live)
    if FAULT != "one state":
        tl.store(score_state + at * score_slot + place.to(tl.int64) * dim + columns, weight, mask=live)


def update_states(
    kv: torch.Tensor,
    score: torch.Tensor,
    ape: torch.Tensor,
    kv_state: torch.Tensor,
    score_state: torch.Tensor,
    *,
    write_plan: torch.Tensor,
    state_slot_mapping: torch.Tensor,
    ratio: int,
    overlap: bool,
    fault: str = "",
) -> None:
    """The planned rows into each slot's state rings."""
    del overlap  # the rings' width says it
    items, dim, ring = write_plan.shape[0], kv.shape[1], kv_state.shape[1]
    if not items:
        return
    dense = fault == "dense slots"
    _state_kernel[(items,)](
        kv, score, ape, kv_state, score_state, write_plan, state_slot_mapping, kv.shape[0], kv_state.shape[0],
        state_slot_mapping.shape[0], kv.stride(0), score.stride(0),
        ring * dim if dense else kv_state.stride(0), ring * dim if dense else score_state.stride(0), ring, dim,
        RATIO=ratio, BLOCK=triton.next_power_of_2(dim), FAULT=fault,
    )  # fmt: skip


@triton.jit
def _translate_kernel(
    topk, tables, positions, indptr, ids, skips, out, n_topk, n_batch, n_columns, n_cells, topk_stride,
    table_stride, envelope, capacity, WINDOW: tl.constexpr, BLOCK: tl.constexpr, FAULT: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0)
    sequence = tl.load(ids + token)
    if (sequence < 0) | (sequence >= n_batch):
        return
    start, stop = tl.load(indptr + token), tl.load(indptr + token + 1)
    if WINDOW > 0:
        skip = tl.minimum(tl.load(positions + token).to(tl.int64) + 1, WINDOW).to(tl.int32)
    else:
        skip = tl.load(skips + token)
    valid = tl.minimum(stop - start - tl.maximum(skip, 0), n_topk)
    if FAULT == "window overwritten":
        valid = tl.minimum(stop - start, n_topk)
    cell = tl.arange(0, BLOCK)
    live = (cell < valid) & (start + cell >= 0) & (start + cell < n_cells)
    entry = tl.load(topk + token.to(tl.int64) * topk_stride + cell, mask=live, other=-1)
    capacity_used = 1 if FAULT == "one row a block" else capacity
    column = entry // capacity_used
    if FAULT == "first block":
        column = column * 0
    pos = tl.load(positions + token)
    known = (entry >= 0) & (column < n_columns)
    if FAULT == "open group":
        known = known & (entry <= pos // 4)
    else:
        known = known & (entry < (pos + 1) // 4)
    if FAULT == "sentinel used":
        known = column < n_columns
        column = tl.maximum(column, 0)
    block = tl.load(tables + sequence.to(tl.int64) * table_stride + column, mask=live & known, other=-1)
    place = entry % capacity_used
    wide = block.to(tl.int64) * envelope + place
    row = tl.where(known & (block >= 0) & (wide < 2**31), wide, -1).to(tl.int32)
    if FAULT == "token rows":
        row = tl.where(known & (block >= 0), block * capacity_used + place, -1)
    tl.store(out + start + cell, row, mask=live)


def translate(
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
    fault: str = "",
) -> None:
    """Selected entries of each token to the head of its slice."""
    tokens, topk = topk_local.shape
    if not tokens or not topk:
        return
    apart = topk if fault == "adjacent entries" else topk_local.stride(0)
    _translate_kernel[(tokens,)](
        topk_local, block_tables, positions, kv_indptr_csa, batch_id_per_token,
        positions if skip_prefix_len_per_token is None else skip_prefix_len_per_token, kv_indices_csa,
        topk, block_tables.shape[0], block_tables.shape[1], kv_indices_csa.shape[0], apart,
        block_tables.stride(0), envelope_rows, csa_block_capacity,
        WINDOW=window_size, BLOCK=triton.next_power_of_2(topk), FAULT=fault,
    )  # fmt: skip
