"""Sparse paged attention of many heads: 64 a program, keys as whole rows, one sum of values from tile to tile.

With 64 heads a program's sums take half of a multiprocessor's registers. There is no room for a tile's own sums
beside them, so a tile is added to them where they are, its weights relative to the largest score so far. A result
then depends on where its slice begins, and a slice is never split; many heads fill a GPU without that.

Unlike few heads' nine slices, a tile needs two products: one for all its scores, one for all its values.
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
def whole_keys(
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
    """Some rows as bf16 [rows, 512]; zeros where a row is not live, which is not read."""
    start = plane_ptr + row_offset(row, plane_stride)
    if PACKED:
        rope = rope_ptr + row_offset(row, rope_stride)[:, None] + tl.arange(0, 64)[None, :]
        k01 = beside(packed_tile(start, live, 0, FNUZ, WORDS), packed_tile(start, live, 1, FNUZ, WORDS))
        k23 = beside(packed_tile(start, live, 2, FNUZ, WORDS), packed_tile(start, live, 3, FNUZ, WORDS))
        k45 = beside(packed_tile(start, live, 4, FNUZ, WORDS), packed_tile(start, live, 5, FNUZ, WORDS))
        k67 = beside(packed_tile(start, live, 6, FNUZ, WORDS), tl.load(rope, mask=live[:, None], other=0.0))
        keys = beside(beside(k01, k23), beside(k45, k67))
    else:
        keys = tl.load(start[:, None] + tl.arange(0, 512)[None, :], mask=live[:, None], other=0.0)
    return keys


@triton.jit
def attend_whole(
    first,
    stop,
    indices_ptr,
    rows,
    plane_ptr,
    plane_stride,
    rope_ptr,
    rope_stride,
    qk_scale,
    q,
    sums,
    total,
    top,
    PACKED: tl.constexpr,
    FNUZ: tl.constexpr,
    WORDS: tl.constexpr,
    BLOCK_N: tl.constexpr,
    STAGES: tl.constexpr,
):
    """One source of keys, entries ``first .. stop - 1``, added to sums [heads, 512], their weight and maximum."""
    n = tl.arange(0, BLOCK_N)
    for begin in tl.range(first, stop, BLOCK_N, num_stages=STAGES):
        at = begin + n
        row = tl.load(indices_ptr + at, mask=at < stop, other=-1)
        live = (row >= 0) & (row < rows)
        keys = whole_keys(row, live, plane_ptr, plane_stride, rope_ptr, rope_stride, PACKED, FNUZ, WORDS)
        scores = tl.where(live[None, :], tl.dot(q, tl.trans(keys)) * qk_scale, float("-inf"))
        new = tl.maximum(top, tl.max(scores, 1))
        base = tl.where(new == float("-inf"), 0.0, new)
        keep = tl.exp2(top - base)
        weights = tl.exp2(scores - base[:, None])
        total = tl.fma(total, keep, tl.sum(weights, 1))
        top = new
        sums = tl.dot(weights.to(tl.bfloat16), keys, sums * keep[:, None])
    return sums, total, top


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
    column = tl.arange(0, 512)[None, :]
    first, stop, _, _ = slice_bounds(indptr_ptr, token, count, BLOCK_N)
    q_at = q_ptr + token.to(tl.int64) * q_stride_t + head.to(tl.int64) * q_stride_h
    q = tl.load(q_at[:, None] + column, mask=held, other=0.0)
    sums = tl.zeros([BLOCK_H, 512], tl.float32)
    total = tl.zeros([BLOCK_H], tl.float32)
    top = tl.full([BLOCK_H], float("-inf"), tl.float32)
    sums, total, top = attend_whole(
        first, stop, indices_ptr, rows, plane_ptr, plane_stride, rope_ptr, rope_stride, qk_scale,
        q, sums, total, top, PACKED, FNUZ, WORDS, BLOCK_N, STAGES,
    )  # fmt: skip
    if EXTEND:
        first, stop, _, _ = slice_bounds(extend_indptr_ptr, token, extend_count, BLOCK_N)
        sums, total, top = attend_whole(
            first, stop, extend_indices_ptr, extend_rows, extend_ptr, extend_stride, extend_ptr, 0, qk_scale,
            q, sums, total, top, False, False, False, BLOCK_N, STAGES,
        )  # fmt: skip
    sink = tl.load(sink_ptr + head, mask=head < heads, other=0.0)
    factor = result_factor(top, total, sink)[:, None]
    out = out_ptr + token.to(tl.int64) * out_stride_t + head.to(tl.int64) * out_stride_h
    tl.store(out[:, None] + column, (sums * factor).to(tl.bfloat16), mask=held)
