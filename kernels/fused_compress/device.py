"""Fused compression on the device: from the pooled positions of a compressed entry to its row.

Softmax pooling runs over positions for each of the 512 elements by itself; ``TILE_K`` positions are loaded and
folded at a time. Which of them come from the state ring and which from this forward decides where they are
read, not how they are folded: a chunk may be split anywhere without changing a bit of the result.

One program does an entry of few positions. Over many positions its loads would wait for one another, tile after
tile, so a first launch pools them with several programs an entry, each for some columns, and a second one goes on.
"""

# Device code is not quite Python: tl.range is iterable.
# pyright: reportGeneralTypeIssues=false, reportOperatorIssue=false

from __future__ import annotations

import triton
import triton.language as tl

from kvproof.kernels.fp8_parts import encode_tiles, store_packed
from kvproof.kernels.row_index.kernel import compress_row, row_offset

COUNTS = [
    "num_rows",
    "num_seqs",
    "num_slots",
    "num_positions",
    "columns",
    "ring",
    "block_rows",
    "envelope_rows",
    "blocks",
    "pool_rows",
    "eps",
]


@triton.jit
def pooled_columns(
    kv_ptr,
    score_ptr,
    ape_ptr,
    kv_state_ptr,
    score_state_ptr,
    kv_stride,
    score_stride,
    kv_place_stride,
    score_place_stride,
    ragged,
    pos,
    window,
    ring,
    first_column,
    RATIO: tl.constexpr,
    K: tl.constexpr,
    TILE_K: tl.constexpr,
    COLUMNS: tl.constexpr,
    STAGES: tl.constexpr,
    ONE_TYPE: tl.constexpr,
):
    """COLUMNS pooled elements of the entry that position ``pos`` completes, from ``first_column`` on; fp32.

    Args:
        kv_ptr, score_ptr, ape_ptr: this forward's rows and the score term of each place in a group.
        kv_state_ptr, score_state_ptr: first element of the request's rings.
        ragged: this forward's row of ``pos``.
        window: of the K pooled positions, so many (the first) are in the rings.
        ONE_TYPE: rows and rings are all fp32.
    """
    d = first_column + tl.arange(0, COLUMNS)[None, :]
    top = tl.full([COLUMNS], float("-inf"), tl.float32)
    total = tl.zeros([COLUMNS], tl.float32)
    sums = tl.zeros([COLUMNS], tl.float32)
    for first in tl.range(0, K, TILE_K, num_stages=STAGES):
        k = first + tl.arange(0, TILE_K)
        at = pos - (K - 1) + k
        seen = (at >= 0) & (k < K)
        new = seen & (k >= window)
        old = seen & (k < window)
        # The first group of an overlapping entry has the first half of a row, the second the other.
        half = tl.where(k >= RATIO, 512, 0)[:, None]
        row = ragged - (K - 1) + k
        place = (at % ring)[:, None]
        kv_row = kv_ptr + row_offset(row, kv_stride)[:, None]
        score_row = score_ptr + row_offset(row, score_stride)[:, None]
        kept_row = kv_state_ptr + row_offset(place, kv_place_stride)
        kept_score_row = score_state_ptr + row_offset(place, score_place_stride)
        term = ape_ptr + (k % RATIO)[:, None] * (512 * (K // RATIO)) + half + d
        ape = tl.load(term, mask=new[:, None], other=0.0)
        if ONE_TYPE:
            # One load takes a row from where it is.
            read = (new | old)[:, None]
            values = tl.load(tl.where(new[:, None], kv_row, kept_row) + half + d, mask=read, other=0.0)
            found = tl.where(new[:, None], score_row, kept_score_row) + half + d
            scores = tl.load(found, mask=read, other=float("-inf"))
            scores = tl.where(new[:, None], scores + ape.to(tl.float32), scores)
        else:
            kv = tl.load(kv_row + half + d, mask=new[:, None], other=0.0)
            score = tl.load(score_row + half + d, mask=new[:, None], other=0.0)
            kept = tl.load(kept_row + half + d, mask=old[:, None], other=0.0)
            kept_score = tl.load(kept_score_row + half + d, mask=old[:, None], other=float("-inf"))
            values = tl.where(new[:, None], kv.to(tl.float32), kept)
            scores = tl.where(new[:, None], score.to(tl.float32) + ape.to(tl.float32), kept_score)
        high = tl.maximum(top, tl.max(scores, 0))
        base = tl.where(high == float("-inf"), 0.0, high)
        keep = tl.exp(top - base)
        weights = tl.exp(scores - base[None, :])
        total = total * keep + tl.sum(weights, 0)
        sums = sums * keep + tl.sum(weights * values, 0)
        top = high
    return sums / total


@triton.jit
def rotated_row(row, weight_ptr, cos_ptr, sin_ptr, angle_row, angle_stride, eps):
    """RMS norm of 512 elements, then RoPE on the last 64 in pairs (even, odd)."""
    d = tl.arange(0, 512)
    scale = tl.rsqrt(tl.sum(row * row, 0) * (1 / 512) + eps)
    even, odd = tl.split(tl.reshape(row * scale * tl.load(weight_ptr + d), (256, 2)))
    pair = tl.arange(0, 256)
    turns = pair >= 224
    angle = row_offset(angle_row, angle_stride) + pair - 224
    cos = tl.load(cos_ptr + angle, mask=turns, other=1.0).to(tl.float32)
    sin = tl.load(sin_ptr + angle, mask=turns, other=0.0).to(tl.float32)
    new_even = tl.where(turns, even * cos - odd * sin, even)
    new_odd = tl.where(turns, odd * cos + even * sin, odd)
    return tl.interleave(new_even, new_odd)


@triton.jit(do_not_specialize=COUNTS)
def fused_compress_kernel(
    kv_ptr,
    score_ptr,
    ape_ptr,
    kv_state_ptr,
    score_state_ptr,
    plan_ptr,
    slots_ptr,
    weight_ptr,
    cos_ptr,
    sin_ptr,
    tables_ptr,
    pool_ptr,
    rope_ptr,
    pooled_ptr,
    kv_stride,
    score_stride,
    kv_slot_stride,
    kv_place_stride,
    score_slot_stride,
    score_place_stride,
    angle_stride,
    table_stride,
    pool_stride,
    rope_stride,
    num_rows,
    num_seqs,
    num_slots,
    num_positions,
    columns,
    ring,
    block_rows,
    envelope_rows,
    blocks,
    pool_rows,
    eps,
    RATIO: tl.constexpr,
    K: tl.constexpr,
    TILE_K: tl.constexpr,
    COLUMNS: tl.constexpr,
    STAGES: tl.constexpr,
    ONE_TYPE: tl.constexpr,
    POOL: tl.constexpr,
    FINISH: tl.constexpr,
    PACKED: tl.constexpr,
    FNUZ: tl.constexpr,
    NATIVE: tl.constexpr,
):
    """Grid (plan rows, 512 / COLUMNS). Strides in elements. Entries pool K positions: RATIO of them, or twice.

    With POOL and FINISH a program does an entry, and COLUMNS is 512. With POOL alone its columns are left at
    ``pooled_ptr``, [plan rows, 512] fp32; with FINISH alone the entry is taken from there.
    """
    plan = plan_ptr + tl.program_id(0).to(tl.int64) * 4
    ragged = tl.load(plan)
    sequence = tl.load(plan + 1)
    pos = tl.load(plan + 2)
    window = tl.load(plan + 3)
    entry = pos // RATIO
    column = entry // block_rows
    live = (pos >= 0) & (ragged >= 0) & (ragged < num_rows) & (sequence >= 0) & (sequence < num_seqs)
    # The entries of this forward that the plan row reads must be rows of it.
    live = live & (window >= 0) & (window < K) & (ragged - (K - 1 - window) >= 0)
    live = live & (column < columns) & (entry * RATIO < num_positions)
    slot = tl.load(slots_ptr + sequence, mask=live, other=-1)
    block = tl.load(tables_ptr + row_offset(sequence, table_stride) + column, mask=live, other=-1)
    row = compress_row(block, entry % block_rows, envelope_rows)
    live = live & (slot >= 0) & (slot < num_slots) & (block >= 0) & (block < blocks) & (row < pool_rows)
    if live == 0:
        return

    d = tl.arange(0, 512)
    pooled_ptr += tl.program_id(0).to(tl.int64) * 512
    if POOL:
        first_column = tl.program_id(1) * COLUMNS
        pooled = pooled_columns(
            kv_ptr,
            score_ptr,
            ape_ptr,
            kv_state_ptr + row_offset(slot, kv_slot_stride),
            score_state_ptr + row_offset(slot, score_slot_stride),
            kv_stride,
            score_stride,
            kv_place_stride,
            score_place_stride,
            ragged,
            pos,
            window,
            ring,
            first_column,
            RATIO,
            K,
            TILE_K,
            COLUMNS,
            STAGES,
            ONE_TYPE,
        )
        if not FINISH:
            tl.store(pooled_ptr + first_column + tl.arange(0, COLUMNS), pooled)
    else:
        pooled = tl.load(pooled_ptr + d)
    if FINISH:
        y = rotated_row(pooled, weight_ptr, cos_ptr, sin_ptr, entry * RATIO, angle_stride, eps)
        target = pool_ptr + row_offset(row, pool_stride)
        if PACKED:
            bits = tl.reshape(y.to(tl.int32, bitcast=True), (1, 8, 64))
            code, exponent = encode_tiles(bits, FNUZ, NATIVE)
            one = tl.arange(0, 1)
            store_packed(target + one, one == 0, code, exponent)
            rope = rope_ptr + row_offset(row, rope_stride) + d - 448
            tl.store(rope, y.to(tl.bfloat16), mask=d >= 448)
        else:
            tl.store(target + d, y.to(tl.bfloat16))
