"""The two kernels of sparse paged attention: one over slices of keys, one that folds tiles left in scratch."""

# Device code is not quite Python: numbers are constexpr, tl.range is iterable, branches are decided when compiled.
# pyright: reportArgumentType=false, reportGeneralTypeIssues=false, reportPossiblyUnboundVariable=false

from __future__ import annotations

import triton
import triton.language as tl

from kvproof.kernels.attention_core import (
    attend_source,
    fold,
    fold_weights,
    result_factor,
    slice_bounds,
    store_slice,
)
from kvproof.kernels.attention_keys import plain_slice

# Counts and strides of the second source are 0 and its pointers any valid ones where EXTEND is off.
COUNTS = ["heads", "rows", "count", "extend_rows", "extend_count", "splits", "qk_scale"]


@triton.jit(do_not_specialize=COUNTS)
def attend_kernel(
    q_ptr,
    out_ptr,
    sink_ptr,
    plane_ptr,
    rope_ptr,
    indices_ptr,
    indptr_ptr,
    extend_ptr,
    extend_indices_ptr,
    extend_indptr_ptr,
    sums_ptr,
    stats_ptr,
    q_stride_t,
    q_stride_h,
    out_stride_t,
    out_stride_h,
    plane_stride,
    rope_stride,
    extend_stride,
    heads,
    rows,
    count,
    extend_rows,
    extend_count,
    splits,
    qk_scale,
    PACKED: tl.constexpr,
    FNUZ: tl.constexpr,
    WORDS: tl.constexpr,
    EXTEND_WORDS: tl.constexpr,
    EXTEND: tl.constexpr,
    SPLIT: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_N: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Grid (tokens * ceil(heads / BLOCK_H), splits): program (t, s) takes a slice's tiles s, s + splits, ...

    With SPLIT each tile's sums [heads, 512], and its sum of weights and maximum, are left in scratch; without, the
    result is written. Strides in elements; scores come in powers of two, so ``qk_scale`` has a factor log2(e).
    Packed rows are unpacked in quads of columns, so with them queries, sums and results are cut so too.
    """
    blocks = tl.cdiv(heads, BLOCK_H)
    token = tl.program_id(0) // blocks
    head = (tl.program_id(0) % blocks) * BLOCK_H + tl.arange(0, BLOCK_H)
    split = tl.program_id(1)
    first, stop, tiles, number = slice_bounds(indptr_ptr, token, count, BLOCK_N)
    all_tiles = tiles
    if EXTEND:
        e_first, e_stop, e_tiles, e_number = slice_bounds(extend_indptr_ptr, token, extend_count, BLOCK_N)
        number += e_number
        all_tiles += e_tiles
    if SPLIT:  # noqa: SIM102  (decided when compiled; the inner one when run)
        if split >= all_tiles:
            return

    live_head = head < heads
    q = q_ptr + token.to(tl.int64) * q_stride_t + head.to(tl.int64) * q_stride_h
    q0 = plain_slice(q, live_head, 0, PACKED)
    q1 = plain_slice(q, live_head, 1, PACKED)
    q2 = plain_slice(q, live_head, 2, PACKED)
    q3 = plain_slice(q, live_head, 3, PACKED)
    q4 = plain_slice(q, live_head, 4, PACKED)
    q5 = plain_slice(q, live_head, 5, PACKED)
    q6 = plain_slice(q, live_head, 6, PACKED)
    q7 = plain_slice(q, live_head, 7, PACKED)
    q8 = plain_slice(q, live_head, 8, PACKED) if PACKED else q7
    c0 = tl.zeros([BLOCK_H, 64], tl.float32)
    c1, c2, c3, c4, c5, c6, c7, c8 = c0, c0, c0, c0, c0, c0, c0, c0
    total = tl.zeros([BLOCK_H], tl.float32)
    top = tl.full([BLOCK_H], float("-inf"), tl.float32)

    c0, c1, c2, c3, c4, c5, c6, c7, c8, total, top = attend_source(
        first + split * BLOCK_N, stop, splits * BLOCK_N, number + split,
        indices_ptr, rows, plane_ptr, plane_stride, rope_ptr, rope_stride, sums_ptr, stats_ptr,
        head, heads, qk_scale,
        q0, q1, q2, q3, q4, q5, q6, q7, q8, c0, c1, c2, c3, c4, c5, c6, c7, c8, total, top,
        PACKED, PACKED, FNUZ, WORDS, SPLIT, BLOCK_N, STAGES,
    )  # fmt: skip
    if EXTEND:
        # Tiles are counted through both sources: the second's first is tile ``tiles``.
        own = (split + splits - tiles % splits) % splits
        c0, c1, c2, c3, c4, c5, c6, c7, c8, total, top = attend_source(
            e_first + own * BLOCK_N, e_stop, splits * BLOCK_N, number + tiles + own,
            extend_indices_ptr, extend_rows, extend_ptr, extend_stride, extend_ptr, 0, sums_ptr, stats_ptr,
            head, heads, qk_scale,
            q0, q1, q2, q3, q4, q5, q6, q7, q8, c0, c1, c2, c3, c4, c5, c6, c7, c8, total, top,
            False, PACKED, False, EXTEND_WORDS, SPLIT, BLOCK_N, STAGES,
        )  # fmt: skip
    if not SPLIT:
        sink = tl.load(sink_ptr + head, mask=head < heads, other=0.0)
        factor = result_factor(top, total, sink)[:, None]
        out = (out_ptr + token.to(tl.int64) * out_stride_t + head.to(tl.int64) * out_stride_h)[:, None]
        held = live_head[:, None]
        store_slice(out, c0 * factor, held, 0, PACKED)
        store_slice(out, c1 * factor, held, 1, PACKED)
        store_slice(out, c2 * factor, held, 2, PACKED)
        store_slice(out, c3 * factor, held, 3, PACKED)
        store_slice(out, c4 * factor, held, 4, PACKED)
        store_slice(out, c5 * factor, held, 5, PACKED)
        store_slice(out, c6 * factor, held, 6, PACKED)
        store_slice(out, c7 * factor, held, 7, PACKED)
        if PACKED:
            store_slice(out, c8 * factor, held, 8, PACKED)


@triton.jit(do_not_specialize=["heads", "count", "extend_count"])
def merge_kernel(
    out_ptr,
    sink_ptr,
    indptr_ptr,
    extend_indptr_ptr,
    sums_ptr,
    stats_ptr,
    out_stride_t,
    out_stride_h,
    heads,
    count,
    extend_count,
    EXTEND: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_H: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Grid (tokens * ceil(heads / BLOCK_H), 512 / COLUMNS): folds a token's tiles, in order, for some heads."""
    blocks = tl.cdiv(heads, BLOCK_H)
    token = tl.program_id(0) // blocks
    head = (tl.program_id(0) % blocks) * BLOCK_H + tl.arange(0, BLOCK_H)
    live = head < heads
    column = (tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS))[None, :]
    _, _, tiles, number = slice_bounds(indptr_ptr, token, count, BLOCK_N)
    if EXTEND:
        _, _, e_tiles, e_number = slice_bounds(extend_indptr_ptr, token, extend_count, BLOCK_N)
        tiles += e_tiles
        number += e_number
    top = tl.full([BLOCK_H], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_H], tl.float32)
    sums = tl.zeros([BLOCK_H, COLUMNS], tl.float32)
    for tile in tl.range(0, tiles, loop_unroll_factor=4):
        place = (number + tile).to(tl.int64) * heads + head
        weight = tl.load(stats_ptr + 2 * place, mask=live, other=0.0)
        tile_top = tl.load(stats_ptr + 2 * place + 1, mask=live, other=0.0)
        part = tl.load(sums_ptr + (place * 512)[:, None] + column, mask=live[:, None], other=0.0)
        top, keep, take = fold_weights(top, tile_top)
        sums = fold(sums, part, keep[:, None], tl.broadcast_to(take[:, None], sums.shape))
        total = fold(total, weight, keep, take)
    sink = tl.load(sink_ptr + head, mask=live, other=0.0)
    result = sums * result_factor(top, total, sink)[:, None]
    out = out_ptr + token.to(tl.int64) * out_stride_t + (head.to(tl.int64) * out_stride_h)[:, None] + column
    tl.store(out, result.to(out_ptr.dtype.element_ty), mask=live[:, None])
