"""Sparse paged attention on the device: keys are gathered row by row, a tile of them at a time.

A tile's softmax statistics and its weighted sum of values are computed from nothing, and folded into what came
before by one formula (:func:`fold_weights`), tile by tile in the order of the slice. One program may do that
for a whole slice, or each tile may be left in scratch memory by whichever program had it and folded by a second
kernel: the same operations in the same order, so a result's bits depend neither on the number of splits nor on
what else is in the batch.

The 512 columns are slices of 64 (``attention_keys``). Each slice has two products of its own, and its sum is
folded at once, so that a program never holds a whole tile's sums beside its running ones. A key is loaded once and
used as key and as value.
"""

# Device code is not quite Python: numbers are constexpr, tl.range is iterable, branches are decided when compiled.
# pyright: reportArgumentType=false, reportGeneralTypeIssues=false, reportPossiblyUnboundVariable=false

from __future__ import annotations

import triton
import triton.language as tl

from kvproof.kernels.attention_keys import key_slices, slice_columns

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def tile_weights(scores, live):
    """(weights [heads, keys], their sums, maxima [heads]) of one tile; scores in powers of two.

    A weight is relative to the head's maximum in this tile. The maximum of a tile without a live key is -inf.
    """
    scores = tl.where(live[None, :], scores, float("-inf"))
    top = tl.max(scores, 1)
    weights = tl.exp2(scores - tl.where(top == float("-inf"), 0.0, top)[:, None])
    return weights, tl.sum(weights, 1), top


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
def fold_slice(before, weights, keys, keep, take):
    """A column slice's sums [heads, 64] so far, with one more tile's."""
    tile = tl.dot(weights, keys)
    return fold(before, tile, keep[:, None], tl.broadcast_to(take[:, None], tile.shape))


@triton.jit
def store_slice(start, values, mask, PART: tl.constexpr, QUADS: tl.constexpr):
    """One column slice [heads, 64] to rows of 512 that begin at ``start`` [heads, 1], as their type."""
    kind = start.dtype.element_ty
    column, held = slice_columns(PART, QUADS)
    tl.store(start + column[None, :], values.to(kind), mask=mask & held[None, :] if QUADS else mask)


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
def attend_source(
    begin_at,
    stop,
    step,
    number,
    indices_ptr,
    rows,
    plane_ptr,
    plane_stride,
    rope_ptr,
    rope_stride,
    sums_ptr,
    stats_ptr,
    head,
    heads,
    qk_scale,
    q0, q1, q2, q3, q4, q5, q6, q7, q8,
    c0, c1, c2, c3, c4, c5, c6, c7, c8,
    total,
    top,
    PACKED: tl.constexpr,
    QUADS: tl.constexpr,
    FNUZ: tl.constexpr,
    WORDS: tl.constexpr,
    SPLIT: tl.constexpr,
    BLOCK_N: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """Every tile that a program has of one source of keys: folded into its sums, or left in scratch (SPLIT).

    Args:
        begin_at: first entry of the program's first tile in the index buffer; ``step`` entries lie from one of
            its tiles to the next. Entries from ``stop`` on are none of the slice.
        number: scratch number of the first tile; the next has ``step / BLOCK_N`` more.
        c0 .. c8, total, top: sums [heads, 64] of each column slice, sum of weights, maximum so far.

    Returns:
        The eleven values, with this source's tiles.
    """
    n = tl.arange(0, BLOCK_N)
    for begin in tl.range(begin_at, stop, step, num_stages=STAGES):
        at = begin + n
        row = tl.load(indices_ptr + at, mask=at < stop, other=-1)
        live = (row >= 0) & (row < rows)
        k0, k1, k2, k3, k4, k5, k6, k7, k8 = key_slices(
            row, live, plane_ptr, plane_stride, rope_ptr, rope_stride, PACKED, QUADS, FNUZ, WORDS
        )
        scores = tl.dot(q0, tl.trans(k0))
        scores = tl.dot(q1, tl.trans(k1), scores)
        scores = tl.dot(q2, tl.trans(k2), scores)
        scores = tl.dot(q3, tl.trans(k3), scores)
        scores = tl.dot(q4, tl.trans(k4), scores)
        scores = tl.dot(q5, tl.trans(k5), scores)
        scores = tl.dot(q6, tl.trans(k6), scores)
        scores = tl.dot(q7, tl.trans(k7), scores)
        if QUADS:
            scores = tl.dot(q8, tl.trans(k8), scores)
        weights, weight, tile_top = tile_weights(scores * qk_scale, live)
        weights = weights.to(tl.bfloat16)
        if SPLIT:
            # Sums [tile, head, 512], and [tile, head, (sum of weights, maximum)].
            tile = number + (begin - begin_at) // BLOCK_N
            place = tile.to(tl.int64) * heads + head
            cell = sums_ptr + (place * 512)[:, None]
            held = (head < heads)[:, None]
            store_slice(cell, tl.dot(weights, k0), held, 0, QUADS)
            store_slice(cell, tl.dot(weights, k1), held, 1, QUADS)
            store_slice(cell, tl.dot(weights, k2), held, 2, QUADS)
            store_slice(cell, tl.dot(weights, k3), held, 3, QUADS)
            store_slice(cell, tl.dot(weights, k4), held, 4, QUADS)
            store_slice(cell, tl.dot(weights, k5), held, 5, QUADS)
            store_slice(cell, tl.dot(weights, k6), held, 6, QUADS)
            store_slice(cell, tl.dot(weights, k7), held, 7, QUADS)
            if QUADS:
                store_slice(cell, tl.dot(weights, k8), held, 8, QUADS)
            tl.store(stats_ptr + 2 * place, weight, mask=head < heads)
            tl.store(stats_ptr + 2 * place + 1, tile_top, mask=head < heads)
        else:
            top, keep, take = fold_weights(top, tile_top)
            total = fold(total, weight, keep, take)
            c0 = fold_slice(c0, weights, k0, keep, take)
            c1 = fold_slice(c1, weights, k1, keep, take)
            c2 = fold_slice(c2, weights, k2, keep, take)
            c3 = fold_slice(c3, weights, k3, keep, take)
            c4 = fold_slice(c4, weights, k4, keep, take)
            c5 = fold_slice(c5, weights, k5, keep, take)
            c6 = fold_slice(c6, weights, k6, keep, take)
            c7 = fold_slice(c7, weights, k7, keep, take)
            if QUADS:
                c8 = fold_slice(c8, weights, k8, keep, take)
    return c0, c1, c2, c3, c4, c5, c6, c7, c8, total, top
