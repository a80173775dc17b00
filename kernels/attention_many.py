"""Sparse paged attention of many heads: 64 a program, keys as four slices of 128 columns, sums that stay in place.

With 64 heads a program's sums take half of a multiprocessor's registers. There is no room for a tile's own sums
beside them, so a tile is added to them where they are, its weights relative to the largest score so far. A result
then depends on where its slice begins, and a slice is never split; many heads fill a GPU without that.

Slices are wider than few heads' (``attention_keys``), since a product of matrices is waited for.
"""

# Device code is not quite Python: numbers are constexpr, tl.range is iterable, branches are decided when compiled.
# pyright: reportArgumentType=false, reportGeneralTypeIssues=false, reportPossiblyUnboundVariable=false

from __future__ import annotations

import triton
import triton.language as tl

from kvproof.kernels.attention_core import result_factor, slice_bounds
from kvproof.kernels.attention_keys import packed_tile
from kvproof.kernels.row_index.kernel import row_offset


@triton.jit
def beside(left, right):
    """[n, w] and [n, w] as [n, 2 w]."""
    return tl.reshape(tl.permute(tl.join(left, right), (0, 2, 1)), (left.shape[0], 2 * left.shape[1]))


@triton.jit
def wide_slices(
    row,
    live,
    plane_ptr,
    plane_stride,
    rope_ptr,
    rope_stride,
    PACKED: tl.constexpr,
    FNUZ: tl.constexpr,
    WORDS: tl.constexpr,
):
    """Some rows as four bf16 slices [rows, 128]; zeros where a row is not live, which is not read."""
    start = plane_ptr + row_offset(row, plane_stride)
    if PACKED:
        rope = rope_ptr + row_offset(row, rope_stride)[:, None] + tl.arange(0, 64)[None, :]
        k01 = beside(packed_tile(start, live, 0, FNUZ, WORDS), packed_tile(start, live, 1, FNUZ, WORDS))
        k23 = beside(packed_tile(start, live, 2, FNUZ, WORDS), packed_tile(start, live, 3, FNUZ, WORDS))
        k45 = beside(packed_tile(start, live, 4, FNUZ, WORDS), packed_tile(start, live, 5, FNUZ, WORDS))
        k67 = beside(packed_tile(start, live, 6, FNUZ, WORDS), tl.load(rope, mask=live[:, None], other=0.0))
    else:
        column = start[:, None] + tl.arange(0, 128)[None, :]
        k01 = tl.load(column, mask=live[:, None], other=0.0)
        k23 = tl.load(column + 128, mask=live[:, None], other=0.0)
        k45 = tl.load(column + 256, mask=live[:, None], other=0.0)
        k67 = tl.load(column + 384, mask=live[:, None], other=0.0)
    return k01, k23, k45, k67


@triton.jit
def attend_wide(
    first,
    stop,
    indices_ptr,
    rows,
    plane_ptr,
    plane_stride,
    rope_ptr,
    rope_stride,
    qk_scale,
    q0, q1, q2, q3,
    c0, c1, c2, c3,
    total,
    top,
    PACKED: tl.constexpr,
    FNUZ: tl.constexpr,
    WORDS: tl.constexpr,
    BLOCK_N: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """One source of keys, entries ``first .. stop - 1``, added to sums c0 .. c3, sum of weights and maximum."""
    n = tl.arange(0, BLOCK_N)
    for begin in tl.range(first, stop, BLOCK_N, num_stages=STAGES):
        at = begin + n
        row = tl.load(indices_ptr + at, mask=at < stop, other=-1)
        live = (row >= 0) & (row < rows)
        k0, k1, k2, k3 = wide_slices(
            row, live, plane_ptr, plane_stride, rope_ptr, rope_stride, PACKED, FNUZ, WORDS
        )
        scores = tl.dot(q0, tl.trans(k0))
        scores = tl.dot(q1, tl.trans(k1), scores)
        scores = tl.dot(q2, tl.trans(k2), scores)
        scores = tl.dot(q3, tl.trans(k3), scores)
        scores = tl.where(live[None, :], scores * qk_scale, float("-inf"))
        new = tl.maximum(top, tl.max(scores, 1))
        base = tl.where(new == float("-inf"), 0.0, new)
        keep = tl.exp2(top - base)
        weights = tl.exp2(scores - base[:, None])
        total = tl.fma(total, keep, tl.sum(weights, 1))
        top = new
        weights = weights.to(tl.bfloat16)
        c0 = tl.dot(weights, k0, c0 * keep[:, None])
        c1 = tl.dot(weights, k1, c1 * keep[:, None])
        c2 = tl.dot(weights, k2, c2 * keep[:, None])
        c3 = tl.dot(weights, k3, c3 * keep[:, None])
    return c0, c1, c2, c3, total, top


@triton.jit(
    do_not_specialize=["heads", "rows", "count", "extend_rows", "extend_count", "qk_scale"],
)
def attend_many_kernel(
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
    qk_scale,
    PACKED: tl.constexpr,
    FNUZ: tl.constexpr,
    WORDS: tl.constexpr,
    EXTEND: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_N: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Grid (tokens * ceil(heads / BLOCK_H),). Arguments as ``attend_kernel`` takes them.

    Programs of one token follow one another, so that one finds the rows in a cache that another has read.
    """
    blocks = tl.cdiv(heads, BLOCK_H)
    token = tl.program_id(0) // blocks
    head = (tl.program_id(0) % blocks) * BLOCK_H + tl.arange(0, BLOCK_H)
    held = (head < heads)[:, None]
    column = tl.arange(0, 128)[None, :]
    first, stop, _, _ = slice_bounds(indptr_ptr, token, count, BLOCK_N)
    q = (q_ptr + token.to(tl.int64) * q_stride_t + head.to(tl.int64) * q_stride_h)[:, None] + column
    q0 = tl.load(q, mask=held, other=0.0)
    q1 = tl.load(q + 128, mask=held, other=0.0)
    q2 = tl.load(q + 256, mask=held, other=0.0)
    q3 = tl.load(q + 384, mask=held, other=0.0)
    c0 = tl.zeros([BLOCK_H, 128], tl.float32)
    c1, c2, c3 = c0, c0, c0
    total = tl.zeros([BLOCK_H], tl.float32)
    top = tl.full([BLOCK_H], float("-inf"), tl.float32)
    c0, c1, c2, c3, total, top = attend_wide(
        first, stop, indices_ptr, rows, plane_ptr, plane_stride, rope_ptr, rope_stride, qk_scale,
        q0, q1, q2, q3, c0, c1, c2, c3, total, top, PACKED, FNUZ, WORDS, BLOCK_N, STAGES,
    )  # fmt: skip
    if EXTEND:
        first, stop, _, _ = slice_bounds(extend_indptr_ptr, token, extend_count, BLOCK_N)
        c0, c1, c2, c3, total, top = attend_wide(
            first, stop, extend_indices_ptr, extend_rows, extend_ptr, extend_stride, extend_ptr, 0, qk_scale,
            q0, q1, q2, q3, c0, c1, c2, c3, total, top, False, False, False, BLOCK_N, STAGES,
        )  # fmt: skip
    sink = tl.load(sink_ptr + head, mask=head < heads, other=0.0)
    factor = result_factor(top, total, sink)[:, None]
    out = out_ptr + token.to(tl.int64) * out_stride_t + head.to(tl.int64) * out_stride_h
    out = out[:, None] + column
    tl.store(out, (c0 * factor).to(tl.bfloat16), mask=held)
    tl.store(out + 128, (c1 * factor).to(tl.bfloat16), mask=held)
    tl.store(out + 256, (c2 * factor).to(tl.bfloat16), mask=held)
    tl.store(out + 384, (c3 * factor).to(tl.bfloat16), mask=held)
