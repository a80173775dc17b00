"""Kernels that between them use every operation that the reader knows, and some that it does not."""

# pyright: reportMissingImports=false, reportIndexIssue=false, reportOperatorIssue=false
import triton
import triton.language as tl


@triton.jit
def device_row(slot, pos, stride: tl.constexpr):
    return slot * stride + pos % stride


@triton.jit
def paged_copy(x, positions, table, out, width, stride, B: tl.constexpr):
    t = tl.program_id(0)
    pos = tl.load(positions + t)
    if pos < 0:
        return
    block = tl.load(table + pos // 64)
    if block < 0:
        return
    columns = tl.arange(0, B)
    mask = columns < width
    row = device_row(block, pos, 64)
    value = tl.load(x + t * stride + columns, mask=mask, other=0.0)
    tl.store(out + row.to(tl.int64) * stride + columns, value, mask=mask)


@triton.jit
def loops(x, out, n, B: tl.constexpr):
    p = tl.program_id(0) + tl.program_id(1) * tl.num_programs(0) + tl.program_id(2)
    lanes = tl.arange(0, B)
    total = tl.zeros([B], tl.float32)
    count = 0
    for start in range(0, n, B):
        at = start + lanes
        total += tl.load(x + at, mask=at < n, other=0.0, cache_modifier=".cg", eviction_policy="evict_last")
        count += 1
    while count > 0:
        total *= 0.5
        count = count // 2
    if n > 10:
        total += 1.0
        if n > 20:
            total += 2.0
    else:
        total -= 1.0
    tl.store(out + p * B + lanes, total)


@triton.jit
def integers(a, b, out, B: tl.constexpr):
    i = tl.arange(0, B)
    x, y = tl.load(a + i), tl.load(b + i)
    u, v = x.to(tl.uint32, bitcast=True), y.to(tl.uint32, bitcast=True)
    r = (x // y) + (x % y) - (x & y) + (x | y) + (x ^ y) + (x << 3) + (x >> 2) - x
    r += tl.minimum(x, y) + tl.maximum(x, y) + tl.abs(x) + tl.umulhi(u, v).to(tl.int32, bitcast=True)
    r += ((u // v) + (u % v) + (u >> 3)).to(tl.int32, bitcast=True)
    r += tl.where(u < v, x, y) + (x == y).to(tl.int32) + (x != y).to(tl.int32)
    wide = x.to(tl.int64) * y.to(tl.int64)
    r += (wide >> 5).to(tl.int32) + x.to(tl.int8).to(tl.int32) + u.to(tl.uint8).to(tl.int32)
    tl.store(out + i, r)


@triton.jit
def floats(a, b, out, half, eight, B: tl.constexpr):
    i = tl.arange(0, B)
    x, y = tl.load(a + i), tl.load(b + i)
    r = tl.exp(x) + tl.exp2(y) + tl.log(tl.abs(x) + 1.0) + tl.log2(tl.abs(y) + 1.0) + tl.sqrt(tl.abs(x))
    r += tl.rsqrt(tl.abs(y) + 1.0) + tl.sin(x) * tl.cos(y) + tl.floor(x) - tl.ceil(y) + tl.fma(x, y, r)
    r += tl.maximum(x, y) + tl.minimum(x, y) + tl.clamp(x, -1.0, 1.0) + tl.erf(x) + tl.div_rn(x, y) - (-x)
    r += tl.where((x < y) & (y > x), x, y) + x.to(tl.int32).to(tl.float32) + tl.sqrt_rn(tl.abs(y))
    tl.store(out + i, r)
    tl.store(half + i, r.to(tl.bfloat16))
    tl.store(eight + i, r.to(tl.float8e5))


@triton.jit
def _larger(a, ai, b, bi):
    take = (a > b) | ((a == b) & (ai < bi))
    return tl.where(take, a, b), tl.where(take, ai, bi)


@triton.jit
def reductions(x, out, outi, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    value = tl.load(x + i[:, None] * N + j[None, :])
    tl.store(out + i, tl.sum(value, 1) + tl.max(value, 1) + tl.min(value, 1))
    best, at = tl.reduce((value, tl.broadcast_to(j[None, :], (M, N))), 1, _larger)
    tl.store(out + M + i, best)
    tl.store(outi + i, at + tl.argmax(value, 1) + tl.argmin(value, 1))
    tl.store(out + 2 * M + i[:, None] * N + j[None, :], tl.cumsum(value, 1))
    whole = tl.sum(value)
    tl.store(out + 2 * M + M * N, whole)
    tl.store(outi + M + j, tl.sum((value > 0.0).to(tl.int32), 0) + tl.xor_sum(at, 0))


@triton.jit
def shapes(x, out, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    value = tl.load(x + i[:, None] * N + j[None, :])
    turned = tl.trans(value)
    flat = tl.reshape(turned, [M * N])
    both = tl.join(flat, flat + 1.0)
    a, b = tl.split(both)
    more = tl.cat(a, b, can_reorder=True)
    picked = tl.gather(value, tl.broadcast_to((N - 1 - j)[None, :], (M, N)), 1)
    tl.store(out + i[:, None] * N + j[None, :], picked)
    tl.store(out + M * N + tl.arange(0, 2 * M * N), more)


@triton.jit
def products(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + i[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * N + j[None, :])
    tl.store(c + i[:, None] * N + j[None, :], tl.dot(x, y, out_dtype=tl.float32))


@triton.jit
def atomics(x, counts, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    value = tl.load(x + i, mask=i < n, other=0)
    old = tl.atomic_add(counts + value, 1, mask=i < n)
    tl.atomic_max(counts + 64 + i, value)
    tl.atomic_cas(counts + 96, 0, n)
    tl.atomic_xchg(counts + 97, n)
    tl.store(out + i, old, mask=i < n)


@triton.jit(noinline=True)
def halved(value, n):
    if n > 3:
        return value * 0.5
    return value


@triton.jit
def calls(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.device_assert(n < B, "n too large")
    tl.store(out + i, tl.load(x + i) * halved(tl.load(x), n))


@triton.jit
def unknown(x, out, extra, n, B: tl.constexpr):
    """The histogram is an operation that kvproof does not model; the copy beside it does not depend on it."""
    i = tl.arange(0, B)
    value = tl.load(x + i)
    tl.store(extra + i, tl.histogram(value, B))
    tl.store(out + i, value, mask=i < n)


SIGNATURES = {
    "paged_copy": (
        paged_copy,
        {"x": "*bf16", "positions": "*i32", "table": "*i32", "out": "*bf16", "width": "i32", "stride": "i32"},
        {"B": 64},
    ),
    "loops": (loops, {"x": "*fp32", "out": "*fp32", "n": "i32"}, {"B": 32}),
    "integers": (integers, {"a": "*i32", "b": "*i32", "out": "*i32"}, {"B": 128}),
    "floats": (
        floats,
        {"a": "*fp32", "b": "*fp32", "out": "*fp32", "half": "*bf16", "eight": "*fp8e5"},
        {"B": 128},
    ),
    "reductions": (reductions, {"x": "*fp32", "out": "*fp32", "outi": "*i32"}, {"M": 8, "N": 16}),
    "shapes": (shapes, {"x": "*fp32", "out": "*fp32"}, {"M": 8, "N": 16}),
    "products": (products, {"a": "*bf16", "b": "*bf16", "c": "*fp32"}, {"M": 16, "N": 16, "K": 32}),
    "atomics": (atomics, {"x": "*i32", "counts": "*i32", "out": "*i32", "n": "i32"}, {"B": 32}),
    "calls": (calls, {"x": "*fp32", "out": "*fp32", "n": "i32"}, {"B": 32}),
    "unknown": (unknown, {"x": "*i32", "out": "*i32", "extra": "*i32", "n": "i32"}, {"B": 32}),
}
"""Of each kernel: the function, its run-time types and its constants."""
