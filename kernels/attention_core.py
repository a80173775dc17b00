"""Sparse paged attention on the device: keys are gathered row by row, 64 (or 32) of them a tile.

A tile's softmax statistics and its weighted sum of values are computed from nothing, and folded into what came
before by one formula (:func:`fold_weights`), tile by tile in the order of the slice. One program may do that
for a whole slice, or each tile may be left in scratch memory by whichever program had it and folded by a second
kernel: the same operations in the same order, so a result's bits depend neither on the number of splits nor on
what else is in the batch.

Keys lie along the first dimension of a tile and heads along the second. A tile of keys is then the left operand
of both products, read from shared memory as gathered, and 16 heads do not have to be padded to the 64 rows that
a Hopper matrix instruction wants on the left. The 512 columns are four slices of 128: each is a load, a product
and a sum of its own, which keeps the running sum and a tile's sum in registers together.
"""

# Device code is not quite Python: numbers are constexpr, tl.range is iterable, branches are decided when compiled.
# pyright: reportArgumentType=false, reportGeneralTypeIssues=false, reportPossiblyUnboundVariable=false

from __future__ import annotations

import triton
import triton.language as tl

from kvproof.kernels.fp8_parts import decode_e4m3, scale_of_byte
from kvproof.kernels.row_index.kernel import row_offset

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def packed_values(code, FNUZ: tl.constexpr, NATIVE: tl.constexpr):
    """fp32 values of e4m3 codes; NATIVE by the conversion instruction of an NVIDIA GPU (OCP only, exact)."""
    return code.to(tl.float8e4nv, bitcast=True).to(tl.float32) if NATIVE else decode_e4m3(code, FNUZ)


@triton.jit
def key_slice(
    row,
    live,
    plane_ptr,
    plane_stride,
    rope_ptr,
    rope_stride,
    PART: tl.constexpr,
    PACKED: tl.constexpr,
    FNUZ: tl.constexpr,
    NATIVE: tl.constexpr,
):
    """Columns 128*PART.. of some rows, bf16 [rows, 128]; zeros in place of a row that is not live.

    A row that is not live is not read: what it holds may be NaN, which no multiplication by 0 would remove.
    """
    column = tl.arange(0, 128)
    start = plane_ptr + row_offset(row, plane_stride)
    if PACKED:
        first = (column < 64)[None, :]
        byte = tl.load(start + 448 + 4 * PART, mask=live, other=0)
        if PART < 3:
            code = tl.load(start[:, None] + (128 * PART + column)[None, :], mask=live[:, None], other=0)
            second_byte = tl.load(start + 450 + 4 * PART, mask=live, other=0)
            scale = tl.where(first, scale_of_byte(byte)[:, None], scale_of_byte(second_byte)[:, None])
            keys = (packed_values(code, FNUZ, NATIVE) * scale).to(tl.bfloat16)
        else:
            code = tl.load(start[:, None] + (384 + column)[None, :], mask=live[:, None] & first, other=0)
            nope = packed_values(code, FNUZ, NATIVE) * scale_of_byte(byte)[:, None]
            # The last 64 columns come from the other plane.
            rope = rope_ptr + row_offset(row, rope_stride)[:, None] + (column - 64)[None, :]
            rotated = tl.load(rope, mask=live[:, None] & (column >= 64)[None, :], other=0.0)
            keys = tl.where(first, nope.to(tl.bfloat16), rotated)
    else:
        keys = tl.load(start[:, None] + (128 * PART + column)[None, :], mask=live[:, None], other=0.0)
    return keys


@triton.jit
def tile_weights(scores, live):
    """(weights [keys, heads], their sums, maxima [heads]) of one tile; scores in powers of two.

    A weight is relative to the head's maximum in this tile. The maximum of a tile without a live key is -inf.
    """
    scores = tl.where(live[:, None], scores, float("-inf"))
    top = tl.max(scores, 0)
    weights = tl.exp2(scores - tl.where(top == float("-inf"), 0.0, top)[None, :])
    return weights, tl.sum(weights, 0), top


@triton.jit
def fold_weights(top, tile_top):
    """(new maximum, factor of what came before, factor of this tile)."""
    new = tl.maximum(top, tile_top)
    base = tl.where(new == float("-inf"), 0.0, new)
    return new, tl.exp2(top - base), tl.exp2(tile_top - base)


@triton.jit
def fold(before, tile, keep, take):
    """Sums so far and a tile's, each times its factor. An explicit fma: compilers may not choose which product."""
    return tl.fma(tile, take, before * keep)


@triton.jit
def fold_tile(c0, c1, c2, c3, total, top, s0, s1, s2, s3, weight, tile_top):
    """A head's sums, sum of weights and maximum so far, with one more tile's."""
    top, keep, take = fold_weights(top, tile_top)
    wide = tl.broadcast_to(take[None, :], s0.shape)
    c0 = fold(c0, s0, keep[None, :], wide)
    c1 = fold(c1, s1, keep[None, :], wide)
    c2 = fold(c2, s2, keep[None, :], wide)
    c3 = fold(c3, s3, keep[None, :], wide)
    return c0, c1, c2, c3, fold(total, weight, keep, take), top


@triton.jit
def result_factor(top, total, sink):
    """What the weighted sum is multiplied by: 1 / (sum of weights + sink's weight), in the sum's own scale.

    0 where there is neither a key nor a sink.
    """
    sink = sink * LOG2E
    high = tl.maximum(top, sink)
    base = tl.where(high == float("-inf"), 0.0, high)
    own = tl.exp2(top - base)
    denominator = tl.fma(total, own, tl.exp2(sink - base))
    return tl.where(denominator == 0.0, 0.0, own / denominator)


@triton.jit
def slice_bounds(indptr_ptr, token, count, BLOCK_N: tl.constexpr):
    """(first, stop, tiles, number of tiles that earlier slices may have) of a token's slice.

    Bounds outside the index buffer are cut to it. Slices that follow one another get scratch numbers that do
    not meet: a slice has at most one tile more than the whole tiles it spans.
    """
    first = tl.minimum(tl.maximum(tl.load(indptr_ptr + token), 0), count)
    stop = tl.minimum(tl.load(indptr_ptr + token + 1), count)
    return first, stop, tl.cdiv(tl.maximum(stop - first, 0), BLOCK_N), first // BLOCK_N + token


@triton.jit
def attend_tile(
    at,
    stop,
    indices_ptr,
    rows,
    plane_ptr,
    plane_stride,
    rope_ptr,
    rope_stride,
    q0,
    q1,
    q2,
    q3,
    qk_scale,
    PACKED: tl.constexpr,
    FNUZ: tl.constexpr,
    NATIVE: tl.constexpr,
):
    """One tile: (sums of its four column slices [128, heads], sum of weights, maximum).

    Args:
        at: places of the tile's entries in the index buffer; those from ``stop`` on are none of it.
    """
    row = tl.load(indices_ptr + at, mask=at < stop, other=-1)
    live = (row >= 0) & (row < rows)
    k0 = key_slice(row, live, plane_ptr, plane_stride, rope_ptr, rope_stride, 0, PACKED, FNUZ, NATIVE)
    scores = tl.dot(k0, q0)
    k1 = key_slice(row, live, plane_ptr, plane_stride, rope_ptr, rope_stride, 1, PACKED, FNUZ, NATIVE)
    scores = tl.dot(k1, q1, scores)
    k2 = key_slice(row, live, plane_ptr, plane_stride, rope_ptr, rope_stride, 2, PACKED, FNUZ, NATIVE)
    scores = tl.dot(k2, q2, scores)
    k3 = key_slice(row, live, plane_ptr, plane_stride, rope_ptr, rope_stride, 3, PACKED, FNUZ, NATIVE)
    scores = tl.dot(k3, q3, scores)
    weights, total, top = tile_weights(scores * qk_scale, live)
    weights = weights.to(tl.bfloat16)
    s0 = tl.dot(tl.trans(k0), weights)
    s1 = tl.dot(tl.trans(k1), weights)
    s2 = tl.dot(tl.trans(k2), weights)
    s3 = tl.dot(tl.trans(k3), weights)
    return s0, s1, s2, s3, total, top


@triton.jit
def store_slices(base, s0, s1, s2, s3, mask):
    """Store four column slices [128, heads] as rows of 512; ``base`` [1, heads] points at the rows."""
    cells = base + tl.arange(0, 128)[:, None]
    tl.store(cells, s0, mask=mask)
    tl.store(cells + 128, s1, mask=mask)
    tl.store(cells + 256, s2, mask=mask)
    tl.store(cells + 384, s3, mask=mask)


@triton.jit
def leave_tile(sums_ptr, stats_ptr, tile, head, heads, s0, s1, s2, s3, weight, tile_top):
    """Leave a tile in scratch: sums [tile, head, 512], then [tile, head, (sum of weights, maximum)]."""
    place = tile.to(tl.int64) * heads + head
    store_slices(sums_ptr + (place * 512)[None, :], s0, s1, s2, s3, (head < heads)[None, :])
    tl.store(stats_ptr + 2 * place, weight, mask=head < heads)
    tl.store(stats_ptr + 2 * place + 1, tile_top, mask=head < heads)
