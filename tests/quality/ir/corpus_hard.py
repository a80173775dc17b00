"""Kernels written against the checker: each wrong twin does what a careless model of the IR would miss.

Same form as the other corpus, whose vocabulary they use.
"""

import triton
import triton.language as tl
from ir_corpus import (
    BOUNDS,
    EACH_OUT,
    MAP,
    OUT,
    SENTINEL,
    WRAP,
    WRITER,
    always,
    array,
    blocks,
    clause,
    contract,
    each,
    ints,
    pair,
    writes,
)

from kvproof.models.contract import Access, Index, Scalar
from kvproof.models.index import cdiv, within

# ---- wraps behind branches, masks and limits ------------------------------------------------------


@triton.jit
def wrap_after_branch(x, out, n, first, S: tl.constexpr, BAD: tl.constexpr):
    """One product, used under a branch where it fits, and behind it where it need not."""
    i = tl.program_id(0)
    at = i * S if BAD else i.to(tl.int64) * S  # fault
    value = tl.zeros((), tl.uint8)
    if i < first:
        value = tl.load(x + at)
    tl.store(out + at, value)


pair(
    "wrap_after_branch", "wrap: mul", wrap_after_branch,
    contract(
        array("x", "n", 2048, dtype="uint8"), array("out", "n", 2048, dtype="uint8", role="inout"), Scalar("first", ""),
        requires=[clause("few", lambda a: within(a.first, 0, 1000)), clause("many", lambda a: a.n >= 1)],
        accesses=[writes("out", [each("n")], lambda a, t: (t, 0))],
    ),
    lambda a: (a.n,), WRAP, BOUNDS, MAP, S=2048,
)  # fmt: skip


@triton.jit
def narrow_stride(x, dest, out, T, out_stride, BAD: tl.constexpr):
    """Rows of one element: dense they never wrap, far apart they do."""
    t = tl.program_id(0)
    row = tl.load(dest + t)
    if BAD:
        at = row * out_stride  # fault
    else:
        at = row.to(tl.int64) * out_stride
    tl.store(out + at, tl.load(x + t))


pair(
    "narrow_stride", "wrap: mul", narrow_stride,
    contract(
        array("x", "T", dtype="uint8"), ints("dest", "T"), array("out", "rows", 1, dtype="uint8", role="inout", strides="rows"),
        requires=[
            clause("range", lambda a, t: within(a.dest[t], 0, a.rows), each("T")),
            clause("distinct", lambda a, t, u: a.dest[t] != a.dest[u], each("T"), Index("u", low=lambda a, t: t + 1, stop=lambda a, t: a.T)),
        ],
        accesses=[writes("out", [each("T")], lambda a, t: (a.dest[t], 0))],
    ),
    lambda a: (a.T,), WRAP,
)  # fmt: skip


@triton.jit
def mask_overflows(x, out, n, m, B: tl.constexpr, BAD: tl.constexpr):
    """A bound that wraps lets everything through."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    if BAD:
        live = (i + m) < (n + m)  # fault
    else:
        live = i < n
    tl.store(out + i, tl.load(x + i, mask=live), mask=live)


pair(
    "mask_overflows", "wrap: add", mask_overflows,
    contract(
        array("x", "n"), OUT, Scalar("m", ""),
        requires=[clause("m", lambda a: a.m >= 0)], accesses=[EACH_OUT],
    ),
    blocks("n", 64), WRAP, B=64,
)  # fmt: skip


@triton.jit
def scaled_mask(x, out, n, BAD: tl.constexpr):
    """A mask whose comparison wraps to true."""
    i = tl.program_id(0)
    if BAD:
        live = (i << 8) < (n << 8)  # fault
    else:
        live = i < n
    tl.store(out + i, tl.load(x + i, mask=live, other=0.0), mask=live)


pair(
    "scaled_mask", "wrap: shl", scaled_mask,
    contract(array("x", "n"), OUT, requires=[clause("some", lambda a: a.n >= 1)], accesses=[EACH_OUT]),
    lambda a: (a.n,), WRAP, MAP,
)  # fmt: skip


@triton.jit
def pointer_chain(x, out, T, D: tl.constexpr, BAD: tl.constexpr):
    """Steps of a pointer are summed in 64 bits; their sum beforehand is not."""
    t = tl.program_id(0)
    c = tl.arange(0, 64)
    half = D // 2
    if BAD:
        target = out + (t * half + t * half)  # fault
    else:
        target = out + t * half
        target += t * half
    tl.store(target + c, tl.load(x + t.to(tl.int64) * 64 + c))


pair(
    "pointer_chain", "wrap: addptr", pointer_chain,
    contract(
        array("x", "T", 64, dtype="uint8"), array("out", "T", 4096, dtype="uint8", role="inout"),
        requires=[clause("rows", lambda a: within(a.T, 0, 2**20))],
    ),
    lambda a: (a.T,), WRAP, D=4096,
)  # fmt: skip


@triton.jit
def half_overflows(at, x, out, n, m, BAD: tl.constexpr):
    """Multiples of 64 are exact in fp16 as far as it reaches: 65,504."""
    t = tl.program_id(0)
    k = tl.load(at + t) * 64
    if BAD:
        k = k.to(tl.float16).to(tl.int32)  # fault
    else:
        k = k.to(tl.float32).to(tl.int32)
    tl.store(out + t, tl.load(x + k))


pair(
    "half_overflows", "fp32 index round-off", half_overflows,
    contract(
        ints("at", "n"), array("x", "m"), OUT,
        requires=[
            clause("indices", lambda a, t: within(a.at[t], 0, 2048), each("n")),
            clause("room", lambda a: a.m >= 2**17),
        ],
        accesses=[EACH_OUT],
    ),
    lambda a: (a.n,), WRAP,
)  # fmt: skip


@triton.jit
def absolute(at, x, out, n, m, BAD: tl.constexpr):
    """The absolute value of the least integer is itself."""
    t = tl.program_id(0)
    k = tl.load(at + t)
    if BAD:
        k = tl.abs(k)  # fault
    else:
        k = tl.maximum(k, 0)
    tl.store(out + t, tl.load(x + k, mask=k < m, other=0.0))


pair(
    "absolute", "wrap: add", absolute,
    contract(ints("at", "n"), array("x", "m"), OUT, requires=[clause("some", lambda a: a.m >= 1)], accesses=[EACH_OUT]),
    lambda a: (a.n,), WRAP, BOUNDS,
)  # fmt: skip

# ---- what a value is --------------------------------------------------------------------------------


@triton.jit
def least_and_most(at, x, out, n, m, BAD: tl.constexpr):
    """The largest and the smallest of a row are two lanes."""
    t = tl.program_id(0)
    row = tl.load(at + t.to(tl.int64) * 16 + tl.arange(0, 16))
    low, high = tl.min(row), tl.max(row)
    if BAD:
        k = m + high - low - 1 if high > low else 0
    else:
        k = tl.minimum(m - 1, high - low) if high > low else 0
    tl.store(out + t, tl.load(x + k))  # fault


pair(
    "least_and_most", "out of bounds", least_and_most,
    contract(
        ints("at", "n", 16), array("x", "m"), OUT,
        requires=[
            clause("indices", lambda a, t, c: within(a.at[t, c], 0, 16), each("n"), Index("c", stop=lambda a, t: 16)),
            clause("room", lambda a: within(a.m, 1, 2**30)),
        ],
        accesses=[EACH_OUT],
    ),
    lambda a: (a.n,), BOUNDS, WRAP,
)  # fmt: skip


@triton.jit
def tickets(counter, out, n, BAD: tl.constexpr):
    """Each round draws another ticket."""
    mine = tl.atomic_add(counter, 1)
    last = mine
    rounds = 0
    while rounds < 2:
        last = tl.atomic_add(counter, 1)
        if BAD and last != mine:
            tl.store(out + n + rounds, 1.0)  # fault
        rounds += 1
        mine = last
    tl.store(out + tl.program_id(0), 1.0)


pair(
    "tickets", "loop", tickets,
    contract(array("counter", 1, dtype="int32", role="inout"), OUT, accesses=[
        EACH_OUT, Access("counter", "may", (Index("c", stop=lambda a: 1),), always, lambda a, c: (c,), "it"),
    ]),
    lambda a: (a.n,), BOUNDS, MAP,
)  # fmt: skip


@triton.jit
def flat_table(table, x, out, rows, K, cells, BAD: tl.constexpr):
    """A table read by flat index: what holds of its first row holds of no other."""
    i = tl.program_id(0)
    k = tl.load(table + i)
    if BAD:
        tl.store(out + i, tl.load(x + k))  # fault
    else:
        tl.store(out + i, tl.load(x + k, mask=(k >= 0) & (k < cells), other=0.0))


pair(
    "flat_table", "out of bounds", flat_table,
    contract(
        ints("table", "rows", "K"), array("x", "cells"), array("out", "cells2", role="out"),
        requires=[
            clause("first row", lambda a, c: within(a.table[0, c], 0, a.cells), Index("c", stop=lambda a: a.K)),
            clause("room", lambda a: a.cells2 >= a.rows * a.K),
            clause("small", lambda a: (a.rows <= 1000) & (a.K <= 1000) & (a.cells2 <= 2**20)),
        ],
    ),
    lambda a: (a.rows * a.K,), BOUNDS,
)  # fmt: skip


@triton.jit
def summed_under_guard(step, out, n, m, BAD: tl.constexpr):
    """A load inside a branch of a loop says nothing of the rounds that do not take it."""
    total = 0
    for i in range(n):
        v = 0
        if i < m:
            v = tl.load(step + i)
        total += v
        if BAD:
            tl.store(out + i + tl.where(v < 0, 1, 0), 1.0)  # fault
        else:
            tl.store(out + i, 1.0, mask=i < m)


pair(
    "summed_under_guard", "loop", summed_under_guard,
    contract(
        ints("step", "m"), array("out", "m", role="out"), Scalar("n", ""),
        requires=[
            clause("n", lambda a: within(a.n, 0, 2**20)), clause("m", lambda a: a.m <= 2**20),
            clause("steps", lambda a, t: a.step[t] >= 0, each("m")),
        ],
    ),
    lambda a: (1,), BOUNDS,
)  # fmt: skip

# ---- masks and choices ---------------------------------------------------------------------------------


@triton.jit
def either(x, out, n, m, B: tl.constexpr, BAD: tl.constexpr):
    """A mask that joins two bounds lets through what is in one of them."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    live = ((i < n) | (i < m)) if BAD else ((i < n) & (i < m))
    tl.store(out + i, tl.load(x + i, mask=live), mask=live)  # fault


pair(
    "either", "out of bounds", either,
    contract(array("x", "n"), array("out", "n", role="inout"), Scalar("m", ""), requires=[clause("m", lambda a: a.m >= 0)]),
    blocks("n", 64), BOUNDS, B=64,
)  # fmt: skip


@triton.jit
def chosen_pointer(x, out, n, m, BAD: tl.constexpr):
    """A pointer chosen by a condition that is not the bound's."""
    i = tl.program_id(0)
    inside = i < m
    at = x + tl.where(inside, i, 0)
    if BAD:
        at = x + tl.where(inside, 0, i)
    tl.store(out + i, tl.load(at))  # fault


pair(
    "chosen_pointer", "out of bounds", chosen_pointer,
    contract(array("x", "m"), OUT, requires=[clause("m", lambda a: within(a.m, 1, a.n))], accesses=[EACH_OUT]),
    lambda a: (a.n,), BOUNDS,
)  # fmt: skip


@triton.jit
def broadcast_lanes(x, out, R, BAD: tl.constexpr):
    """Lanes of a broadcast dimension all store to the cell of its first."""
    r = tl.program_id(0) * 4 + tl.arange(0, 4)[:, None]
    c = tl.arange(0, 32)[None, :]
    at = r * 32 + c // 2 if BAD else r * 32 + c
    live = (r < R) & (c < 32)
    tl.store(out + at, tl.load(x + r * 32 + c, mask=live), mask=live)  # fault


pair(
    "broadcast_lanes", "duplicate destinations", broadcast_lanes,
    contract(
        array("x", "R", 32), array("out", "R", 32, role="inout"), requires=[clause("R", lambda a: a.R <= 2**20)],
    ),
    lambda a: (cdiv(a.R, 4),), WRITER,
)  # fmt: skip


@triton.jit
def turned(x, out, R, BAD: tl.constexpr):
    """A tile turned round, with the mask of the one that is not."""
    r = tl.program_id(0) * 8 + tl.arange(0, 8)
    c = tl.arange(0, 8)
    at = r[:, None] * 8 + c[None, :]
    live = (r[:, None] < R) & (c[None, :] < 8)
    value = tl.load(x + at, mask=live)
    if BAD:
        tl.store(out + tl.trans(at), value, mask=live)  # fault
    else:
        tl.store(out + tl.trans(at), tl.trans(value), mask=tl.trans(live))


pair(
    "turned", "off-diagonal out of bounds", turned,
    contract(array("x", "R", 8), array("out", "R", 8, role="inout"), requires=[clause("R", lambda a: a.R <= 2**20)]),
    lambda a: (cdiv(a.R, 8),), BOUNDS,
)  # fmt: skip


@triton.jit
def reshaped(x, out, n, BAD: tl.constexpr):
    """Flat lanes in rows of 16; a row is 15 long."""
    i = tl.program_id(0) * 64 + tl.arange(0, 64)
    rows = tl.reshape(i, (4, 16))
    live = rows < n
    at = rows + (tl.arange(0, 4)[:, None] if BAD else 0)
    tl.store(out + at, 1.0, mask=live)  # fault


pair(
    "reshaped", "out of bounds", reshaped,
    contract(array("x", "n"), OUT, requires=[clause("n", lambda a: a.n <= 2**20)]),
    blocks("n", 64), BOUNDS, WRITER,
)  # fmt: skip


@triton.jit
def joined(x, out, n, BAD: tl.constexpr):
    """Two halves joined lane by lane, each lane its own cell."""
    i = tl.program_id(0) * 64 + tl.arange(0, 32)
    at = tl.join(i, i + (31 if BAD else 32))
    tl.store(out + at, 1.0, mask=at < n)  # fault


pair(
    "joined", "duplicate destinations", joined,
    contract(array("x", "n"), OUT, requires=[clause("n", lambda a: a.n <= 2**20)]),
    blocks("n", 64), WRITER,
)  # fmt: skip


@triton.jit
def splitted(x, out, n, BAD: tl.constexpr):
    """The odd lanes of a pair are one further than the even ones."""
    i = tl.program_id(0) * 64 + tl.arange(0, 64)
    even, odd = tl.split(tl.reshape(i, (32, 2)))
    tl.store(out + even, 1.0, mask=even < n)
    if BAD:
        tl.store(out + odd, 1.0, mask=even < n)  # fault
    else:
        tl.store(out + odd, 1.0, mask=odd < n)


pair(
    "splitted", "out of bounds", splitted,
    contract(array("x", "n"), OUT, requires=[clause("n", lambda a: a.n <= 2**20)]),
    blocks("n", 64), BOUNDS,
)  # fmt: skip


@triton.jit
def counted_slots(flags, out, n, B: tl.constexpr, BAD: tl.constexpr):
    """A sum of flags is an address: at most as many as there are flags."""
    t = tl.program_id(0)
    flag = tl.load(flags + t.to(tl.int64) * B + tl.arange(0, B))
    if BAD:
        flag = flag + 1
    total = tl.sum(flag, 0)
    tl.store(out + t.to(tl.int64) * (B + 1) + total, 1.0)  # fault


pair(
    "counted_slots", "out of bounds", counted_slots,
    contract(
        ints("flags", "n", 16), array("out", "n", 17, role="inout"),
        requires=[clause("flags", lambda a, t, c: within(a.flags[t, c], 0, 2), each("n"), Index("c", stop=lambda a, t: 16))],
    ),
    lambda a: (a.n,), BOUNDS, WRITER, B=16,
)  # fmt: skip

# ---- programs, loops, atomics -----------------------------------------------------------------------------


@triton.jit
def planes(out, X, Y, Z, BAD: tl.constexpr):
    """Three program ids: with the wrong pitch two of them meet."""
    i, j, k = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    pitch = X if BAD else Y
    tl.store(out + (k.to(tl.int64) * pitch + j) * X + i, 1.0)  # fault


pair(
    "planes", "duplicate destinations", planes,
    contract(
        array("out", "Z", "Y", "X", role="inout"),
        requires=[clause("sizes", lambda a: (a.X <= 1000) & (a.Y <= 1000) & (a.Z <= 1000) & (a.X <= a.Y))],
    ),
    lambda a: (a.X, a.Y, a.Z), WRITER,
)  # fmt: skip


@triton.jit
def carried_pointer(x, out, n, steps, BAD: tl.constexpr):
    """A pointer moved through a loop: one step too many is outside."""
    i = tl.program_id(0)
    at = x + i.to(tl.int64) * steps
    total = 0.0
    for _ in range(steps + 1 if BAD else steps):
        total += tl.load(at)  # fault
        at += 1
    tl.store(out + i, total)


pair(
    "carried_pointer", "loop", carried_pointer,
    contract(
        array("x", "n", "steps"), OUT,
        requires=[clause("steps", lambda a: within(a.steps, 1, 1000)), clause("n", lambda a: a.n <= 2**20)],
        accesses=[EACH_OUT],
    ),
    lambda a: (a.n,), BOUNDS,
)  # fmt: skip


@triton.jit
def behind_loop(out, steps, BAD: tl.constexpr):
    """Where a pointer stands after a loop that may run zero times."""
    at = out
    for _ in range(steps):
        at += 1
    if BAD:
        tl.store(at, 1.0)  # fault
    else:
        tl.store(at - 1, 1.0, mask=steps > 0)


pair(
    "behind_loop", "loop", behind_loop,
    contract(array("out", "steps", role="inout"), requires=[clause("steps", lambda a: a.steps <= 2**20)]),
    lambda a: (1,), BOUNDS,
)  # fmt: skip


@triton.jit
def while_rounds(out, n, BAD: tl.constexpr):
    """The second round is outside, not the first."""
    i = 0
    while i < 3:
        if BAD:
            tl.store(out + i * n, 1.0, mask=n > 0)  # fault
        else:
            tl.store(out + i, 1.0, mask=i < n)
        i += 1


pair(
    "while_rounds", "loop", while_rounds,
    contract(array("out", "n", role="inout"), requires=[clause("n", lambda a: a.n <= 2**20)]),
    lambda a: (1,), BOUNDS,
)  # fmt: skip


@triton.jit
def atomic_place(at, out, n, m, BAD: tl.constexpr):
    """An atomic is an access like any other, and beside a plain store a second writer."""
    t = tl.program_id(0)
    k = tl.load(at + t)
    tl.atomic_add(out + k, 1.0)
    if BAD:
        tl.store(out + k, 2.0)  # fault


pair(
    "atomic_place", "duplicate destinations", atomic_place,
    contract(
        ints("at", "n"), array("out", "m", role="inout"),
        requires=[clause("indices", lambda a, t: within(a.at[t], 0, a.m), each("n"))],
    ),
    lambda a: (a.n,), WRITER,
)  # fmt: skip


@triton.jit
def exchanged(at, out, n, m, BAD: tl.constexpr):
    """An atomic's own address is checked too."""
    t = tl.program_id(0)
    k = tl.load(at + t)
    live = (k <= m) if BAD else (k < m)
    tl.atomic_xchg(out + k, 1, mask=live)  # fault


pair(
    "exchanged", "out of bounds", exchanged,
    contract(
        ints("at", "n"), array("out", "m", dtype="int32", role="inout"),
        requires=[clause("indices", lambda a, t: a.at[t] >= 0, each("n"))],
    ),
    lambda a: (a.n,), BOUNDS,
)  # fmt: skip


@triton.jit
def own_table(table, x, out, n, m, BAD: tl.constexpr):
    """An index table that the kernel itself writes to holds no longer what the caller promised."""
    t = tl.program_id(0)
    tl.store(table + t, t * 2)
    k = tl.load(table + t)
    if BAD:
        tl.store(out + t, tl.load(x + k))  # fault
    else:
        tl.store(out + t, tl.load(x + k, mask=(k >= 0) & (k < m), other=0.0))


pair(
    "own_table", "out of bounds", own_table,
    contract(
        array("table", "n", dtype="int32", role="inout"), array("x", "m"), OUT,
        requires=[clause("indices", lambda a, t: within(a.table[t], 0, a.m), each("n")), clause("m", lambda a: within(a.m, 1, a.n)), clause("n", lambda a: a.n <= 2**20)],
    ),
    lambda a: (a.n,), BOUNDS,
)  # fmt: skip


@triton.jit
def wide_and_narrow(out, n, BAD: tl.constexpr):
    """A wide store and a byte inside it."""
    t = tl.program_id(0)
    row = out + t.to(tl.int64) * 8
    tl.store(row.to(tl.pointer_type(tl.int32)), 1)
    tl.store(row + (2 if BAD else 6), 1)  # fault


pair(
    "wide_and_narrow", "overlapping stores", wide_and_narrow,
    contract(array("out", "n", 8, dtype="uint8", role="inout"), requires=[clause("n", lambda a: a.n >= 1)]),
    lambda a: (a.n,), WRITER,
)  # fmt: skip


@triton.jit
def negative_remainder_mask(pos, x, out, n, R: tl.constexpr, BAD: tl.constexpr):
    """A remainder below a bound may be negative."""
    t = tl.program_id(0)
    p = tl.load(pos + t)
    k = (p - 3) % R
    live = (k < R) if BAD else (k >= 0)
    tl.store(out + t, tl.load(x + k, mask=live, other=0.0))  # fault


pair(
    "negative_remainder_mask", "negative remainder", negative_remainder_mask,
    contract(
        ints("pos", "n"), array("x", 64), OUT,
        requires=[clause("positions", lambda a, t: a.pos[t] >= 0, each("n"))], accesses=[EACH_OUT],
    ),
    lambda a: (a.n,), BOUNDS, SENTINEL, R=64,
)  # fmt: skip


@triton.jit
def chosen_source(x, kept, out, n, total, BAD: tl.constexpr):
    """One load from either of two tensors."""
    t = tl.program_id(0) * 16 + tl.arange(0, 16)
    new = t < n
    place = t if BAD else t - n
    values = tl.load(tl.where(new, x + t, kept + place), mask=t < total, other=0.0)  # fault
    tl.store(out + t, values, mask=t < total)


pair(
    "chosen_source", "pointer choice", chosen_source,
    contract(
        array("x", "n"), array("kept", "m"), array("out", "total", role="inout"),
        requires=[clause("sizes", lambda a: a.total == a.n + a.m)],
    ),
    lambda a: (cdiv(a.total, 16),), BOUNDS,
)  # fmt: skip


@triton.jit
def chosen_destination(x, left, right, n, total, BAD: tl.constexpr):
    """One store to either of two tensors."""
    t = tl.program_id(0) * 16 + tl.arange(0, 16)
    first = (t <= n) if BAD else (t < n)
    tl.store(tl.where(first, left + t, right + (t - n)), tl.load(x + t, mask=t < total), mask=t < total)  # fault


pair(
    "chosen_destination", "pointer choice", chosen_destination,
    contract(
        array("x", "total"), array("left", "n", role="inout"), array("right", "m", role="inout"),
        requires=[clause("sizes", lambda a: a.total == a.n + a.m)],
    ),
    lambda a: (cdiv(a.total, 16),), BOUNDS,
)  # fmt: skip


@triton.jit
def chosen_twice(x, left, right, n, BAD: tl.constexpr):
    """Two tensors chosen between by a table: each destination is one place of one of them."""
    t = tl.program_id(0)
    at = tl.load(x + t)
    place = tl.where(at >= 0, left + at, right + (-1 - at))
    tl.store(place if not BAD else tl.where(at >= 0, left + at, right + at // -2), 1.0)  # fault


pair(
    "chosen_twice", "pointer choice", chosen_twice,
    contract(
        ints("x", "n"), array("left", "m", role="inout"), array("right", "m", role="inout"),
        requires=[
            clause("places", lambda a, t: within(a.x[t], -a.m, a.m), each("n")),
            clause("distinct", lambda a, t, u: (t == u) | (a.x[t] != a.x[u]), each("n"), each("n", "u")),
        ],
    ),
    lambda a: (a.n,), WRITER, SENTINEL,
)  # fmt: skip
