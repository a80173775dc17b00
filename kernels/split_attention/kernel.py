"""Split attention in three stages that meet in scratch memory: split, combine, consume.

Published data lies behind a flag: a 64-bit word of a value and the launch's tag, stored at once after the data.
A consumer takes the data only after it has read this launch's tag there, so nothing of an earlier launch is ever
consumed. It asks a bounded number of times; then it reports itself in ``status``, publishes nothing, and leaves
whoever waits for it to do the same.

Tasks are numbered stage after stage, so that one launch may hold any range of them. A program waits only for
tasks of lower number.
"""

from __future__ import annotations

import triton
import triton.language as tl

from kvproof.kernels.fp8_parts import decode_e4m3, encode_tiles, scale_of_byte

NEGATIVE = tl.constexpr(float("-inf"))


@triton.jit
def publish(flags_ptr, at, tag):
    """Say that the data which this program has stored is there. One 64-bit store, so that it is never torn."""
    # The flag may not overtake the data, which all threads of the program stored.
    tl.debug_barrier()
    word = (tag.to(tl.int64) << 32) | 1
    tl.atomic_xchg(flags_ptr + at, word, sem="release", scope="gpu")


@triton.jit
def missing_flags(flags_ptr, at, wanted, tag, polls):
    """How many of the wanted flags do not carry this launch's tag, after asking up to ``polls`` times."""
    zero = at * 0
    words = tl.atomic_add(flags_ptr + at, zero, mask=wanted, sem="acquire", scope="gpu")
    missing = tl.sum((wanted & ((words >> 32) != tag)).to(tl.int32), axis=0)
    tries = 1
    while (missing > 0) & (tries < polls):  # pyright: ignore[reportOperatorIssue]
        words = tl.atomic_add(flags_ptr + at, zero, mask=wanted, sem="acquire", scope="gpu")
        missing = tl.sum((wanted & ((words >> 32) != tag)).to(tl.int32), axis=0)
        tries += 1
    tl.debug_barrier()
    return missing


@triton.jit
def head_tile_chunk(
    q_ptr,
    kv_ptr,
    indices_ptr,
    first_key,
    keys,
    num_rows,
    kv_stride,
    scale,
    CHUNK: tl.constexpr,
    BLOCK_K: tl.constexpr,
    D: tl.constexpr,
):
    """(weighted sum [16, D], largest score [16], sum of weights [16]) of one chunk of keys for a tile of heads."""
    head = tl.arange(0, 16)
    dim = tl.arange(0, D)
    q = tl.load(q_ptr + head[:, None] * D + dim[None, :])
    top = tl.full([16], NEGATIVE, tl.float32)
    total = tl.zeros([16], tl.float32)
    acc = tl.zeros([16, D], tl.float32)
    for start in range(0, CHUNK, BLOCK_K):
        key = first_key + start + tl.arange(0, BLOCK_K)
        row = tl.load(indices_ptr + key, mask=key < keys, other=-1)
        known = (row >= 0) & (row < num_rows)
        # A row that is not there is not read: whatever lies at row 0 must not come in, not even times 0.
        rows = tl.load(
            kv_ptr + row.to(tl.int64)[:, None] * kv_stride + dim[None, :], mask=known[:, None], other=0.0
        )
        scores = tl.where(known[None, :], tl.dot(q, tl.trans(rows)) * scale, NEGATIVE)
        larger = tl.maximum(top, tl.max(scores, axis=1))
        base = tl.where(larger == NEGATIVE, 0.0, larger)
        weights = tl.exp(scores - base[:, None])
        kept = tl.exp(top - base)
        total = total * kept + tl.sum(weights, axis=1)
        acc = acc * kept[:, None] + tl.dot(weights.to(tl.bfloat16), rows)
        top = larger
    return acc, top, total


@triton.jit
def combined(part_ptr, pstat_ptr, sink_ptr, token, first_head, chunks, H: tl.constexpr, D: tl.constexpr):
    """Output [8, D] of eight heads of a token: its chunks' partials, each by its share of the whole."""
    head = first_head + tl.arange(0, 8)
    dim = tl.arange(0, D)
    top = tl.load(sink_ptr + head)
    first = token.to(tl.int64) * chunks
    for chunk in range(chunks):
        place = (first + chunk) * H + head
        top = tl.maximum(top, tl.load(pstat_ptr + 2 * place, cache_modifier=".cg"))
    base = tl.where(top == NEGATIVE, 0.0, top)
    whole = tl.exp(tl.load(sink_ptr + head) - base)
    acc = tl.zeros([8, D], tl.float32)
    for chunk in range(chunks):
        place = (first + chunk) * H + head
        largest = tl.load(pstat_ptr + 2 * place, cache_modifier=".cg")
        weight = tl.load(pstat_ptr + 2 * place + 1, cache_modifier=".cg") * tl.exp(largest - base)
        partial = tl.load(part_ptr + place[:, None] * D + dim[None, :], cache_modifier=".cg")
        acc += weight[:, None] * partial.to(tl.float32)
        whole += weight
    return acc / tl.where(whole > 0, whole, 1.0)[:, None]


@triton.jit(
    do_not_specialize=[
        "first_task",
        "tokens",
        "chunks",
        "most_keys",
        "num_rows",
        "tag",
        "polls",
    ]
)
def split_attention_kernel(
    q_ptr,
    kv_ptr,
    indices_ptr,
    indptr_ptr,
    sink_ptr,
    part_ptr,
    pstat_ptr,
    srdy_ptr,
    xo_ptr,
    xos_ptr,
    crdy_ptr,
    out_ptr,
    status_ptr,
    first_task,
    tokens,
    chunks,
    most_keys,
    num_rows,
    kv_stride,
    scale,
    tag,
    polls,
    H: tl.constexpr,
    D: tl.constexpr,
    CHUNK: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_C: tl.constexpr,
    FNUZ: tl.constexpr,
    NATIVE: tl.constexpr,
):
    """Grid (tasks,): program g runs task ``first_task + g``.

    Tasks: first one a (token, chunk), which splits; then one a (token, eight heads), which combines; then one a
    (token, eight heads), which consumes. ``polls``: how often a task asks for flags before it gives up.
    """
    task = tl.program_id(0) + first_task
    splits = tokens * chunks
    sets = tokens * (H // 8)
    if task < splits:
        token, chunk = task // chunks, task % chunks
        start = tl.load(indptr_ptr + token)
        keys = tl.minimum(tl.load(indptr_ptr + token + 1) - start, most_keys)
        head = tl.arange(0, 16)
        dim = tl.arange(0, D)
        for tile in range(H // 16):
            acc, top, total = head_tile_chunk(
                q_ptr + (token.to(tl.int64) * H + tile * 16) * D,
                kv_ptr,
                indices_ptr + start,
                chunk * CHUNK,
                keys,
                num_rows,
                kv_stride,
                scale,
                CHUNK,
                BLOCK_K,
                D,
            )
            place = task.to(tl.int64) * H + tile * 16 + head
            mean = acc / tl.where(total > 0, total, 1.0)[:, None]
            tl.store(part_ptr + place[:, None] * D + dim[None, :], mean.to(tl.bfloat16))
            tl.store(pstat_ptr + 2 * place, top)
            tl.store(pstat_ptr + 2 * place + 1, total)
        publish(srdy_ptr, task, tag)
    elif task < splits + sets:
        number = task - splits
        token, first_head = number // (H // 8), number % (H // 8) * 8
        chunk = tl.arange(0, BLOCK_C)
        missing = missing_flags(srdy_ptr, token.to(tl.int64) * chunks + chunk, chunk < chunks, tag, polls)
        if missing == 0:
            output = combined(part_ptr, pstat_ptr, sink_ptr, token, first_head, chunks, H, D)
            groups = tl.reshape(output.to(tl.int32, bitcast=True), [8, D // 32, 32])
            code, exponent = encode_tiles(groups, FNUZ, NATIVE)
            head = token.to(tl.int64) * H + first_head + tl.arange(0, 8)
            group = tl.arange(0, D // 32)
            lane = tl.arange(0, 32)
            column = (group * 32)[None, :, None] + lane[None, None, :]
            tl.store(xo_ptr + (head * D)[:, None, None] + column, code.to(tl.uint8))
            tl.store(xos_ptr + (head * (D // 32))[:, None] + group[None, :], exponent + 127)
            publish(crdy_ptr, number, tag)
        else:
            tl.atomic_max(status_ptr, 1)
    else:
        number = task - splits - sets
        one = tl.arange(0, 1)
        missing = missing_flags(crdy_ptr, number + one, one == 0, tag, polls)
        if missing == 0:
            head = number.to(tl.int64) * 8 + tl.arange(0, 8)
            group = tl.arange(0, D // 32)
            lane = tl.arange(0, 32)
            column = (group * 32)[None, :, None] + lane[None, None, :]
            code = tl.load(xo_ptr + (head * D)[:, None, None] + column, cache_modifier=".cg")
            scales = tl.load(xos_ptr + (head * (D // 32))[:, None] + group[None, :], cache_modifier=".cg")
            value = decode_e4m3(code, FNUZ) * scale_of_byte(scales)[:, :, None]
            tl.store(out_ptr + (head * D)[:, None, None] + column, value)
        else:
            tl.atomic_max(status_ptr, 2)
