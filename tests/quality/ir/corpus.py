"""Small kernels in pairs, one right and one wrong, with what a check must find in each.

A pair is one function with a constant ``BAD``. The line that is wrong where ``BAD`` is set carries the comment
``# fault``; the check must name it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import triton
import triton.language as tl

from kvproof.models.contract import Access, Clause, Contract, Index, Scalar, Tensor
from kvproof.models.index import cdiv, maximum, minimum, within

BOUNDS, SENTINEL, WRAP = "in bounds", "no sentinel in an address", "no wrap"
WRITER, MAP = "one writer a cell", "addresses of the contract"


@dataclass(frozen=True)
class Pair:
    """A kernel, its contract, and the property that its wrong twin breaks.

    Attributes:
        name: short name.
        kind: what kind of fault.
        kernel: the function.
        contract: of both twins.
        grid: programs, of the contract's arguments.
        breaks: properties that the wrong twin may be reported for; the first must be.
        arguments: parameters that do not go by name.
        abstains: properties of the right twin that may be UNKNOWN, as documented.
        dtypes: element types where the contract allows several.
    """

    name: str
    kind: str
    kernel: Any
    contract: Contract
    grid: Callable[[Any], tuple[Any, ...]]
    breaks: tuple[str, ...]
    arguments: dict[str, Any] = field(default_factory=dict)
    abstains: tuple[str, ...] = ()

    @property
    def bears_contract(self) -> bool:
        """Whether the contract has clauses: guarantees of contents or sizes beyond the shapes."""
        return bool(self.contract.requires)


PAIRS: list[Pair] = []


def pair(name, kind, kernel, contract, grid, *breaks, abstains=(), **arguments):
    """Add a pair to the corpus."""
    PAIRS.append(Pair(name, kind, kernel, contract, grid, breaks, arguments, tuple(abstains)))


def array(name, *shape, dtype="fp32", role="in", strides="contiguous"):
    """A tensor argument."""
    return Tensor(name, dtype, shape, "", role, strides)


def ints(name, *shape, dtype="int32", strides="contiguous"):
    """An index tensor."""
    return Tensor(name, dtype, shape, "", strides=strides)


def contract(*arguments, requires=(), accesses=None):
    """A contract of these arguments; if no accesses are stated, any cell of what is no input may be written."""
    if accesses is None:
        accesses = [anywhere(t) for t in arguments if isinstance(t, Tensor) and t.role != "in"]
    return Contract("corpus", "", arguments, tuple(requires), (), tuple(accesses))


def anywhere(tensor):
    """Every cell of a tensor may be written."""
    extent = tensor.shape[0]
    row = Index("row", stop=lambda a: getattr(a, extent) if isinstance(extent, str) else extent)
    return Access(tensor.name, "may", (row,), always, lambda a, i: (i,), f"cells of {tensor.name}")


def each(extent, name="t"):
    """An index over an extent."""
    return Index(name, stop=lambda a, *_: getattr(a, extent))


def always(*_):
    """Every element is live."""
    return True


def writes(buffer, over, cell, when=always):
    """Cells that must be written."""
    return Access(buffer, "must", tuple(over), when, cell, f"cells of {buffer}")


def reads(buffer, over, cell, when=always):
    """Cells that may be read."""
    return Access(buffer, "read", tuple(over), when, cell, f"cells of {buffer}")


def clause(name, holds, *over):
    """A guarantee of the caller."""
    return Clause(name, name, holds, tuple(over))


def blocks(extent, size):
    """A grid of blocks of ``size``."""
    return lambda a: (cdiv(getattr(a, extent), size),)


OUT = array("out", "n", role="out")
EACH_OUT = writes("out", [each("n")], lambda a, t: (t,))

# ---- out of bounds -------------------------------------------------------------


@triton.jit
def copy(x, out, n, B: tl.constexpr, BAD: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    if BAD:
        tl.store(out + i, tl.load(x + i, mask=i < n))  # fault
    else:
        tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


COPY = contract(array("x", "n"), OUT, accesses=[EACH_OUT, reads("x", [each("n")], lambda a, t: (t,))])
pair("copy", "out of bounds", copy, COPY, blocks("n", 64), BOUNDS, MAP, B=64)


@triton.jit
def copy_to_end(x, out, n, B: tl.constexpr, BAD: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    live = i < n
    value = tl.load(x + i, mask=live)
    if BAD:
        live = i <= n
    tl.store(out + i, value, mask=live)  # fault


pair("copy_to_end", "out of bounds", copy_to_end, COPY, blocks("n", 64), BOUNDS, MAP, B=64)


@triton.jit
def previous(x, out, n, B: tl.constexpr, BAD: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    first = 0 if BAD else 1
    value = tl.load(x + i - 1, mask=(i >= first) & (i < n), other=0.0)  # fault
    tl.store(out + i, value, mask=i < n)


pair(
    "previous",
    "out of bounds",
    previous,
    contract(array("x", "n"), OUT, accesses=[EACH_OUT]),
    blocks("n", 64),
    BOUNDS,
    B=64,
)


@triton.jit
def last_element(x, out, n, BAD: tl.constexpr):
    t = tl.program_id(0)
    last = n if BAD else n - 1
    tl.store(out + t, tl.load(x + tl.minimum(t + 7, last)))  # fault


pair(
    "last_element",
    "out of bounds",
    last_element,
    contract(array("x", "n"), OUT, accesses=[EACH_OUT]),
    lambda a: (a.n,),
    BOUNDS,
)


@triton.jit
def unsigned_guard(at, x, out, n, m, BAD: tl.constexpr):
    t = tl.program_id(0)
    k = tl.load(at + t)
    if BAD:
        tl.store(out + t, tl.load(x + k, mask=k < m, other=0.0))  # fault
    else:
        # Read as unsigned, a negative index is a large one.
        tl.store(out + t, tl.load(x + k, mask=k.to(tl.uint32, bitcast=True) < m.to(tl.uint32), other=0.0))


GATHER = contract(ints("at", "n"), array("x", "m"), OUT, accesses=[EACH_OUT])
pair("unsigned_guard", "out of bounds", unsigned_guard, GATHER, lambda a: (a.n,), BOUNDS)


@triton.jit
def chosen(x, y, out, n, m, BAD: tl.constexpr):
    t = tl.program_id(0)
    small = t < m
    if BAD:
        k = tl.where(small, t, t - m)
    else:
        k = tl.where(small, t, m - 1)
    tl.store(out + t, tl.load(x + k, mask=m > 0, other=0.0))  # fault


pair(
    "chosen",
    "out of bounds",
    chosen,
    contract(array("x", "m"), array("y", "n"), OUT, accesses=[EACH_OUT]),
    lambda a: (a.n,),
    BOUNDS,
)

# ---- tensors that may not be written --------------------------------------------------


@triton.jit
def over_input(x, out, n, BAD: tl.constexpr):
    t = tl.program_id(0)
    value = tl.load(x + t)
    tl.store(out + t, value)
    if BAD:
        tl.store(x + t, 0.0)  # fault


UNREAD = contract(array("x", "n"), OUT, accesses=[EACH_OUT])
pair("over_input", "undeclared tensor", over_input, UNREAD, lambda a: (a.n,), MAP)


@triton.jit
def second_output(x, out, other, n, m, BAD: tl.constexpr):
    """The second may be modified, as far as its role goes, and no write to it is declared."""
    t = tl.program_id(0)
    value = tl.load(x + t)
    tl.store(out + t, value)
    if BAD:
        tl.store(other + t, value, mask=t < m)  # fault
    else:
        # Never made.
        tl.store(other + t, value, mask=(t < m) & (t >= n))


SECOND = contract(array("x", "n"), OUT, array("other", "m", role="inout"), accesses=[EACH_OUT])
pair("second_output", "undeclared tensor", second_output, SECOND, lambda a: (a.n,), MAP)


@triton.jit
def counts_in_input(at, out, n, m, BAD: tl.constexpr):
    t = tl.program_id(0)
    k = tl.load(at + t)
    live = (k >= 0) & (k < m)
    tl.atomic_add(out + k, 1, mask=live)
    if BAD:
        tl.atomic_max(at + t, 0, mask=live)  # fault


COUNTED = contract(
    ints("at", "n"), array("out", "m", dtype="int32", role="inout"),
    requires=[clause("n", lambda a: a.n >= 1)],
)  # fmt: skip
pair("counts_in_input", "undeclared tensor", counts_in_input, COUNTED, lambda a: (a.n,), MAP)

# ---- off the diagonal ------------------------------------------------------------

GRID2 = contract(
    array("x", "R", "C"), array("out", "R", "C", role="out"),
    accesses=[writes("out", [each("R", "r"), Index("c", stop=lambda a, _r: a.C)], lambda a, r, c: (r, c))],
)  # fmt: skip


@triton.jit
def matrix(x, out, R, C, B: tl.constexpr, BAD: tl.constexpr):
    r = tl.program_id(0)
    c = tl.program_id(1) * B + tl.arange(0, B)
    at = r.to(tl.int64) * C + c
    live = (at < R.to(tl.int64) * C) if BAD else (c < C)
    tl.store(out + at, tl.load(x + at, mask=live), mask=live)  # fault


pair(
    "matrix",
    "off-diagonal out of bounds",
    matrix,
    GRID2,
    lambda a: (a.R, cdiv(a.C, 64)),
    WRITER,
    BOUNDS,
    MAP,
    B=64,
)


@triton.jit
def transposed(x, out, R, C, BAD: tl.constexpr):
    r, c = tl.program_id(0), tl.program_id(1)
    value = tl.load(x + r.to(tl.int64) * C + c)
    step = C if BAD else R
    tl.store(out + c.to(tl.int64) * step + r, value)  # fault


TURN = contract(
    array("x", "R", "C"), array("out", "C", "R", role="out"),
    accesses=[writes("out", [each("C", "c"), Index("r", stop=lambda a, _c: a.R)], lambda a, c, r: (c, r))],
)  # fmt: skip
pair("transposed", "off-diagonal out of bounds", transposed, TURN, lambda a: (a.R, a.C), BOUNDS, WRITER, MAP)


@triton.jit
def triangle(x, out, n, B: tl.constexpr, BAD: tl.constexpr):
    i = tl.program_id(0)
    j = tl.arange(0, B)
    last = i + 1 if BAD else i
    value = tl.load(x + j, mask=(j <= last) & (j < 64), other=0.0)  # fault
    tl.store(out + i, tl.sum(value, 0))


TRIANGLE = contract(array("x", "n"), OUT, accesses=[EACH_OUT])
pair("triangle", "off-diagonal out of bounds", triangle, TRIANGLE, lambda a: (a.n,), BOUNDS, B=64)


@triton.jit
def tile(x, out, R, C, M: tl.constexpr, N: tl.constexpr, BAD: tl.constexpr):
    r = tl.program_id(0) * M + tl.arange(0, M)
    c = tl.arange(0, N)
    live = (r < R)[:, None] & (c < (N if BAD else C))[None, :]
    at = r.to(tl.int64)[:, None] * C + c[None, :]
    tl.store(out + at, tl.load(x + at, mask=live), mask=live)  # fault


NARROW = contract(
    *GRID2.arguments, requires=[clause("narrow", lambda a: within(a.C, 1, 65))], accesses=GRID2.accesses
)
pair("tile", "off-diagonal out of bounds", tile, NARROW, lambda a: (cdiv(a.R, 4),), BOUNDS, WRITER, MAP, M=4, N=64)

# ---- guarded branches ---------------------------------------------------------------


@triton.jit
def guarded(x, out, n, m, BAD: tl.constexpr):
    t = tl.program_id(0)
    if (t <= m) if BAD else (t < m):
        tl.store(out + t, tl.load(x + t))  # fault
    else:
        tl.store(out + t, 0.0)


GUARD = contract(array("x", "m"), OUT, accesses=[EACH_OUT])
pair("guarded", "guarded branch", guarded, GUARD, lambda a: (a.n,), BOUNDS, MAP, abstains=(MAP,))


@triton.jit
def early_return(at, x, out, n, m, BAD: tl.constexpr):
    t = tl.program_id(0)
    k = tl.load(at + t)
    if (k >= m) if BAD else ((k < 0) | (k >= m)):
        return
    tl.store(out + t, tl.load(x + k))  # fault


SOME = contract(
    ints("at", "n"), array("x", "m"), OUT,
    accesses=[writes("out", [each("n")], lambda a, t: (t,), lambda a, t: within(a.at[t], 0, a.m))],
)  # fmt: skip
pair("early_return", "guarded branch", early_return, SOME, lambda a: (a.n,), BOUNDS, MAP)


@triton.jit
def nested(x, out, n, m, BAD: tl.constexpr):
    t = tl.program_id(0)
    k = t - m
    if t < m:
        k = t
    else:
        if BAD:
            k = t
    tl.store(out + t, tl.load(x + k))  # fault


TWICE = contract(
    array("x", "m"), OUT, requires=[clause("at most twice", lambda a: a.n <= 2 * a.m)], accesses=[EACH_OUT]
)
pair("nested", "guarded branch", nested, TWICE, lambda a: (a.n,), BOUNDS)

# ---- 32-bit wraps ---------------------------------------------------------------------

ROWS = contract(
    array("x", "T", 512, dtype="bf16"), ints("dest", "T"), array("out", "rows", 512, dtype="bf16", role="inout"),
    requires=[
        clause("dest in range", lambda a, t: within(a.dest[t], 0, a.rows), each("T")),
        clause("dest distinct", lambda a, t, u: a.dest[t] != a.dest[u], each("T"), Index("u", low=lambda a, t: t + 1, stop=lambda a, t: a.T)),
    ],
    accesses=[writes("out", [each("T")], lambda a, t: (a.dest[t],)), reads("x", [each("T")], lambda a, t: (t,))],
)  # fmt: skip


@triton.jit
def row_mul(x, dest, out, T, rows, D: tl.constexpr, BAD: tl.constexpr):
    t = tl.program_id(0)
    c = tl.arange(0, D)
    value = tl.load(x + t.to(tl.int64) * D + c)
    row = tl.load(dest + t)
    if not BAD:
        row = row.to(tl.int64)
    tl.store(out + row * D + c, value)  # fault


pair("row_mul", "wrap: mul", row_mul, ROWS, lambda a: (a.T,), WRAP, D=512)


@triton.jit
def row_addptr(x, dest, out, T, rows, D: tl.constexpr, BAD: tl.constexpr):
    t = tl.program_id(0)
    c = tl.arange(0, D)
    source = x + t.to(tl.int64) * D
    row = tl.load(dest + t)
    if BAD:
        target = out + row * D  # fault
    else:
        target = out + row.to(tl.int64) * D
    tl.store(target + c, tl.load(source + c))


pair("row_addptr", "wrap: addptr", row_addptr, ROWS, lambda a: (a.T,), WRAP, D=512)


@triton.jit
def row_shift(x, dest, out, T, rows, D: tl.constexpr, BAD: tl.constexpr):
    t = tl.program_id(0)
    c = tl.arange(0, D)
    value = tl.load(x + (t.to(tl.int64) << 9) + c)
    row = tl.load(dest + t)
    if not BAD:
        row = row.to(tl.int64)
    tl.store(out + (row << 9) + c, value)  # fault


pair("row_shift", "wrap: shl", row_shift, ROWS, lambda a: (a.T,), WRAP, D=512)


@triton.jit
def row_trunc(x, dest, out, T, rows, D: tl.constexpr, BAD: tl.constexpr):
    t = tl.program_id(0)
    c = tl.arange(0, D)
    value = tl.load(x + t.to(tl.int64) * D + c)
    offset = tl.load(dest + t).to(tl.int64) * D
    if BAD:
        offset = offset.to(tl.int32)  # fault
    tl.store(out + offset + c, value)


pair("row_trunc", "wrap: trunc", row_trunc, ROWS, lambda a: (a.T,), WRAP, D=512)

SUMS = contract(
    ints("a1", "n"), ints("a2", "n"), array("x", "m"), OUT,
    requires=[
        clause("not negative", lambda a, t: (a.a1[t] >= 0) & (a.a2[t] >= 0), each("n")),
        clause("room", lambda a: a.m >= 1),
    ],
    accesses=[EACH_OUT],
)  # fmt: skip


@triton.jit
def sum_add(a1, a2, x, out, n, m, BAD: tl.constexpr):
    t = tl.program_id(0)
    k = tl.load(a1 + t)
    j = tl.load(a2 + t)
    if not BAD:
        k = k.to(tl.int64)
    at = k + j  # fault
    tl.store(out + t, tl.load(x + at, mask=at < m, other=0.0))


pair("sum_add", "wrap: add", sum_add, SUMS, lambda a: (a.n,), WRAP, BOUNDS)


@triton.jit
def window_sub(pos, x, out, n, m, W: tl.constexpr, BAD: tl.constexpr):
    t = tl.program_id(0)
    p = tl.load(pos + t)
    if not BAD:
        p = tl.maximum(p, 0)
    first = p - (W - 1)  # fault
    live = (first >= 0) & (first < m)
    tl.store(out + t, tl.load(x + first, mask=live, other=0.0))


ANY_POS = contract(ints("pos", "n"), array("x", "m"), OUT, accesses=[EACH_OUT])
pair("window_sub", "wrap: sub", window_sub, ANY_POS, lambda a: (a.n,), WRAP, W=128)


@triton.jit
def narrow_positions(pos, x, out, n, m, BAD: tl.constexpr):
    t = tl.program_id(0)
    p = tl.load(pos + t)
    if BAD:
        k = p.to(tl.int32)  # fault
    else:
        k = tl.minimum(tl.maximum(p, -1), m).to(tl.int32)
    tl.store(out + t, tl.load(x + k, mask=(k >= 0) & (k < m), other=0.0))


WIDE_POS = contract(ints("pos", "n", dtype="int64"), array("x", "m"), OUT, accesses=[EACH_OUT])
pair("narrow_positions", "wrap: trunc", narrow_positions, WIDE_POS, lambda a: (a.n,), WRAP)

# ---- negative remainders and quotients ---------------------------------------------------


RING = contract(
    ints("pos", "n"), array("x", "R"), OUT, Scalar("unused", ""),
    requires=[
        clause("positions", lambda a, t: within(a.pos[t], 0, 2**30), each("n")),
        clause("ring", lambda a: within(a.R, 1, 2**20)),
    ],
    accesses=[EACH_OUT],
)  # fmt: skip


@triton.jit
def ring_previous(pos, x, out, n, R, BAD: tl.constexpr):
    t = tl.program_id(0)
    p = tl.load(pos + t)
    if BAD:
        k = (p - 1) % R
    else:
        k = (p + R - 1) % R
    tl.store(out + t, tl.load(x + k))  # fault


pair("ring_previous", "negative remainder", ring_previous, RING, lambda a: (a.n,), BOUNDS)


@triton.jit
def ring_window(pos, x, out, n, R, W: tl.constexpr, BAD: tl.constexpr):
    t = tl.program_id(0)
    p = tl.load(pos + t)
    i = p - (W - 1) + tl.arange(0, W)
    live = i >= 0
    if not BAD:
        i = tl.maximum(i, 0)
    value = tl.load(x + i % R, mask=(i < 8) if BAD else live, other=0.0)  # fault
    tl.store(out + t, tl.sum(value, 0))


pair("ring_window", "negative remainder", ring_window, RING, lambda a: (a.n,), BOUNDS, W=16)

PAGED = contract(
    ints("pos", "n"), ints("table", "columns"), array("x", "blocks", 64), OUT,
    requires=[
        clause("pos within the table", lambda a, t: within(a.pos[t], -1, 64 * a.columns), each("n")),
        clause("blocks", lambda a, c: within(a.table[c], 0, a.blocks), each("columns", "c")),
        clause("sizes", lambda a: within(a.columns, 1, 2**20)),
    ],
    accesses=[
        writes("out", [each("n")], lambda a, t: (t,), lambda a, t: a.pos[t] >= 0),
        reads("x", [each("n")], lambda a, t: (a.table[maximum(a.pos[t], 0) // 64], maximum(a.pos[t], 0) % 64), lambda a, t: a.pos[t] >= 0),
    ],
)  # fmt: skip


@triton.jit
def paged_sentinel(pos, table, x, out, n, columns, blocks, BAD: tl.constexpr):
    t = tl.program_id(0)
    p = tl.load(pos + t)
    if (p < -1) if BAD else (p < 0):
        return
    block = tl.load(table + p // 64)  # fault
    tl.store(out + t, tl.load(x + block.to(tl.int64) * 64 + p % 64))


pair("paged_sentinel", "sentinel leak", paged_sentinel, PAGED, lambda a: (a.n,), SENTINEL, BOUNDS, MAP)


@triton.jit
def paged_shift(pos, table, x, out, n, columns, blocks, SHIFT: tl.constexpr, BAD: tl.constexpr):
    t = tl.program_id(0)
    p = tl.load(pos + t)
    if p < 0:
        return
    block = tl.load(table + (p >> (SHIFT - 1 if BAD else SHIFT)))  # fault
    tl.store(out + t, tl.load(x + block.to(tl.int64) * 64 + (p & 63)))


pair("paged_shift", "shift/mask paging", paged_shift, PAGED, lambda a: (a.n,), BOUNDS, MAP, SHIFT=6)


@triton.jit
def paged_mask(pos, table, x, out, n, columns, blocks, BAD: tl.constexpr):
    t = tl.program_id(0)
    p = tl.load(pos + t)
    if p < 0:
        return
    block = tl.load(table + (p >> 6))
    place = p & (127 if BAD else 63)
    tl.store(out + t, tl.load(x + (block.to(tl.int64) << 6) + place))  # fault


pair("paged_mask", "shift/mask paging", paged_mask, PAGED, lambda a: (a.n,), BOUNDS, MAP)


@triton.jit
def paged_or(pos, table, x, out, n, columns, blocks, BAD: tl.constexpr):
    t = tl.program_id(0)
    p = tl.load(pos + t)
    if p < 0:
        return
    block = tl.load(table + (p >> 6)).to(tl.int64)
    tl.store(out + t, tl.load(x + ((block << (7 if BAD else 6)) | (p & 63))))  # fault


pair("paged_or", "shift/mask paging", paged_or, PAGED, lambda a: (a.n,), BOUNDS, MAP)


@triton.jit
def paged_first(pos, table, x, out, n, columns, blocks, BAD: tl.constexpr):
    t = tl.program_id(0)
    p = tl.load(pos + t)
    if p < 0:
        return
    block = tl.load(table + (0 if BAD else p // 64))
    tl.store(out + t, tl.load(x + block.to(tl.int64) * 64 + p % 64))  # fault


pair("paged_first", "block-table indirection", paged_first, PAGED, lambda a: (a.n,), MAP)


@triton.jit
def paged_column(pos, table, x, out, n, columns, blocks, BAD: tl.constexpr):
    t = tl.program_id(0)
    p = tl.load(pos + t)
    if p < 0:
        return
    block = tl.load(table + (p // 64 + (1 if BAD else 0)))  # fault
    tl.store(out + t, tl.load(x + block.to(tl.int64) * 64 + p % 64))


pair("paged_column", "block-table indirection", paged_column, PAGED, lambda a: (a.n,), BOUNDS, MAP)

TABLES = contract(
    ints("seq", "n"), ints("pos", "n"), ints("table", "bs", "columns", strides="rows"), array("x", "blocks", 64), OUT,
    requires=[
        clause("sequences", lambda a, t: within(a.seq[t], 0, a.bs), each("n")),
        clause("pos", lambda a, t: within(a.pos[t], 0, 64 * a.columns), each("n")),
        clause("blocks", lambda a, s, c: within(a.table[s, c], 0, a.blocks), each("bs", "s"), Index("c", stop=lambda a, _s: a.columns)),
        clause("sizes", lambda a: within(a.columns, 1, 2**20)),
    ],
    accesses=[EACH_OUT, reads("x", [each("n")], lambda a, t: (a.table[a.seq[t], a.pos[t] // 64], a.pos[t] % 64))],
)  # fmt: skip


@triton.jit
def tables(seq, pos, table, x, out, n, bs, columns, blocks, table_stride, BAD: tl.constexpr):
    t = tl.program_id(0)
    s, p = tl.load(seq + t), tl.load(pos + t)
    step = columns if BAD else table_stride
    block = tl.load(table + s.to(tl.int64) * step + p // 64)  # fault
    tl.store(out + t, tl.load(x + block.to(tl.int64) * 64 + p % 64))


pair("tables", "strided view", tables, TABLES, lambda a: (a.n,), BOUNDS, MAP)

# ---- slot maps ------------------------------------------------------------------------------

SLOTS = contract(
    array("x", "T", 64), ints("slot", "T"), array("out", "slots", 64, role="inout"),
    requires=[
        clause("distinct live slots", lambda a, t, u: (a.slot[t] < 0) | (a.slot[t] != a.slot[u]), each("T"), Index("u", low=lambda a, t: t + 1, stop=lambda a, t: a.T)),
    ],
    accesses=[writes("out", [each("T")], lambda a, t: (a.slot[t],), lambda a, t: within(a.slot[t], 0, a.slots))],
)  # fmt: skip


@triton.jit
def slot_write(x, slot, out, T, slots, BAD: tl.constexpr):
    t = tl.program_id(0)
    c = tl.arange(0, 64)
    s = tl.load(slot + t)
    live = (s >= 0) if BAD else ((s >= 0) & (s < slots))
    tl.store(out + s.to(tl.int64) * 64 + c, tl.load(x + t.to(tl.int64) * 64 + c), mask=live)  # fault


pair("slot_write", "slot-map indirection", slot_write, SLOTS, lambda a: (a.T,), BOUNDS, MAP)


@triton.jit
def slot_padding(x, slot, out, T, slots, BAD: tl.constexpr):
    t = tl.program_id(0)
    c = tl.arange(0, 64)
    s = tl.load(slot + t)
    if BAD:
        s = tl.maximum(s, 0)
    live = (s >= 0) & (s < slots)
    tl.store(out + s.to(tl.int64) * 64 + c, tl.load(x + t.to(tl.int64) * 64 + c), mask=live)  # fault


pair("slot_padding", "duplicate destinations", slot_padding, SLOTS, lambda a: (a.T,), WRITER, MAP)


@triton.jit
def slot_halved(x, slot, out, T, slots, BAD: tl.constexpr):
    t = tl.program_id(0)
    c = tl.arange(0, 64)
    s = tl.load(slot + t)
    live = (s >= 0) & (s < slots)
    row = s // 2 if BAD else s
    tl.store(out + row.to(tl.int64) * 64 + c, tl.load(x + t.to(tl.int64) * 64 + c), mask=live)  # fault


pair("slot_halved", "slot-map indirection", slot_halved, SLOTS, lambda a: (a.T,), WRITER, MAP)

SHARED = contract(
    *SLOTS.arguments, requires=[clause("range", lambda a, t: within(a.slot[t], 0, a.slots), each("T"))]
)


@triton.jit
def slot_shared(x, slot, out, T, slots, BAD: tl.constexpr):
    t = tl.program_id(0)
    c = tl.arange(0, 64)
    s = tl.load(slot + t).to(tl.int64)
    value = tl.load(x + t.to(tl.int64) * 64 + c)
    if BAD:
        tl.store(out + s * 64 + c, value)  # fault
    else:
        tl.atomic_add(out + s * 64 + c, value)


MAY = Access("out", "may", (each("T"),), always, lambda a, t: (a.slot[t],), "the slots' rows")
pair(
    "slot_shared",
    "duplicate destinations",
    slot_shared,
    contract(*SHARED.arguments, requires=SHARED.requires, accesses=[MAY]),
    lambda a: (a.T,),
    WRITER,
)


@triton.jit
def slot_scaled(x, slot, out, T, slots, BAD: tl.constexpr):
    """The second slot's rows lie behind the first's, so a sentinel stays in bounds."""
    t = tl.program_id(0)
    s = tl.load(slot + t)
    if (s < -1) if BAD else (s < 0):
        return
    row = s * 2 + 2
    tl.store(out + t, tl.load(x + row, mask=row < slots, other=0.0))  # fault


BEHIND = contract(
    array("x", "slots"), ints("slot", "T"), array("out", "T", role="out"),
    requires=[clause("ids", lambda a, t: within(a.slot[t], -1, 2**20), each("T"))],
)  # fmt: skip
WRITE_SOME = Access("out", "may", (each("T"),), always, lambda a, t: (t,), "the tokens' cells")
pair(
    "slot_scaled",
    "sentinel leak",
    slot_scaled,
    contract(*BEHIND.arguments, requires=BEHIND.requires, accesses=[WRITE_SOME]),
    lambda a: (a.T,),
    SENTINEL,
)

# ---- views ---------------------------------------------------------------------------------------

VIEW = contract(
    array("x", "T", 64, strides="rows"), array("out", "T", 64, role="out", strides="rows"),
    accesses=[writes("out", [each("T")], lambda a, t: (t,)), reads("x", [each("T")], lambda a, t: (t,))],
)  # fmt: skip


@triton.jit
def strided(x, out, T, x_stride, out_stride, BAD: tl.constexpr):
    t = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, 64)
    step = 64 if BAD else x_stride
    value = tl.load(x + t * step + c)  # fault
    tl.store(out + t * out_stride + c, value)


pair("strided", "strided view", strided, VIEW, lambda a: (a.T,), BOUNDS, MAP)


@triton.jit
def strided_store(x, out, T, x_stride, out_stride, BAD: tl.constexpr):
    t = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, 64)
    value = tl.load(x + t * x_stride + c)
    step = x_stride if BAD else out_stride
    tl.store(out + t * step + c, value)  # fault


pair("strided_store", "strided view", strided_store, VIEW, lambda a: (a.T,), BOUNDS, WRITER, MAP)


@triton.jit
def wide_row(x, out, T, x_stride, out_stride, B: tl.constexpr, BAD: tl.constexpr):
    t = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, B)
    live = c < (65 if BAD else 64)
    value = tl.load(x + t * x_stride + c, mask=c < 64)
    tl.store(out + t * out_stride + c, value, mask=live)  # fault


pair("wide_row", "strided view", wide_row, VIEW, lambda a: (a.T,), BOUNDS, WRITER, MAP, B=128)

OFFSET = contract(
    array("x", "rows", 64), array("out", "T", 64, role="out"), Scalar("first", "first row"),
    requires=[clause("first", lambda a: (a.first >= 0) & (a.first + a.T <= a.rows))],
    accesses=[writes("out", [each("T")], lambda a, t: (t,)), reads("x", [each("T")], lambda a, t: (a.first + t,))],
)  # fmt: skip


@triton.jit
def offset_view(x, out, T, rows, first, BAD: tl.constexpr):
    t = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, 64)
    row = first + t + (1 if BAD else 0)
    tl.store(out + t * 64 + c, tl.load(x + row * 64 + c))  # fault


pair("offset_view", "offset view", offset_view, OFFSET, lambda a: (a.T,), BOUNDS, MAP)

STATE = contract(
    array("x", "T", 32), ints("slot", "T"), ints("pos", "T"), array("state", "slots", "ring", 32, role="inout", strides="rows"),
    requires=[
        clause("slots", lambda a, t: within(a.slot[t], 0, a.slots), each("T")),
        clause("positions", lambda a, t: within(a.pos[t], 0, 2**30), each("T")),
        clause("own slot", lambda a, t, u: a.slot[t] != a.slot[u], each("T"), Index("u", low=lambda a, t: t + 1, stop=lambda a, t: a.T)),
        clause("ring", lambda a: within(a.ring, 1, 2**16)),
    ],
    accesses=[writes("state", [each("T")], lambda a, t: (a.slot[t], a.pos[t] % a.ring))],
)  # fmt: skip


@triton.jit
def state_row(x, slot, pos, state, T, slots, ring, state_stride, BAD: tl.constexpr):
    t = tl.program_id(0)
    c = tl.arange(0, 32)
    s, p = tl.load(slot + t).to(tl.int64), tl.load(pos + t)
    base = s * (ring * 32) if BAD else s * state_stride
    tl.store(state + base + (p % ring) * 32 + c, tl.load(x + t.to(tl.int64) * 32 + c))  # fault


pair("state_row", "strided view", state_row, STATE, lambda a: (a.T,), BOUNDS, WRITER, MAP)

# ---- overlapping stores ------------------------------------------------------------------------

RECORD = contract(
    array("x", "T", 64), array("y", "T", 16), array("out", "T", 64, role="out"),
    accesses=[writes("out", [each("T")], lambda a, t: (t,))],
)  # fmt: skip


@triton.jit
def record(x, y, out, T, BAD: tl.constexpr):
    t = tl.program_id(0).to(tl.int64)
    c, d = tl.arange(0, 64), tl.arange(0, 16)
    first = tl.load(x + t * 64 + c)
    tl.store(out + t * 64 + c, first, mask=c < (64 if BAD else 48))  # fault
    tl.store(out + t * 64 + 48 + d, tl.load(y + t * 16 + d))


pair("record", "overlapping stores", record, RECORD, lambda a: (a.T,), WRITER)


@triton.jit
def halves(x, y, out, T, BAD: tl.constexpr):
    t = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, 32)
    tl.store(out + t * 64 + c, tl.load(x + t * 64 + c))  # fault
    tl.store(out + t * 64 + (31 if BAD else 32) + c, tl.load(x + t * 64 + 32 + c))


pair("halves", "overlapping stores", halves, RECORD, lambda a: (a.T,), WRITER, MAP)


@triton.jit
def blocks_apart(x, out, n, B: tl.constexpr, BAD: tl.constexpr):
    step = B - 1 if BAD else B
    i = tl.program_id(0) * step + tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)  # fault


pair("blocks_apart", "duplicate destinations", blocks_apart, COPY, blocks("n", 64), WRITER, MAP, B=64)


@triton.jit
def lanes(x, out, n, B: tl.constexpr, BAD: tl.constexpr):
    i = tl.arange(0, B)
    at = tl.program_id(0) * B + (i // 2 if BAD else i)
    tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)  # fault


pair("lanes", "duplicate destinations", lanes, COPY, blocks("n", 64), WRITER, MAP, B=64)


@triton.jit
def programs_2d(out, X, Y, BAD: tl.constexpr):
    x, y = tl.program_id(0), tl.program_id(1)
    step = Y if BAD else X
    tl.store(out + y.to(tl.int64) * step + x, 1.0)  # fault


PLANE = contract(
    array("out", "Y", "X", role="out"),
    accesses=[writes("out", [each("Y", "y"), Index("x", stop=lambda a, _y: a.X)], lambda a, y, x: (y, x))],
)  # fmt: skip
pair("programs_2d", "duplicate destinations", programs_2d, PLANE, lambda a: (a.X, a.Y), BOUNDS, WRITER, MAP)

# ---- rings ---------------------------------------------------------------------------------------


def ring(most):
    """Tokens of one request at consecutive positions, at most so many, into a ring of R."""
    return contract(
        array("x", "T", 32), array("out", "R", 32, role="inout"), Scalar("first", "position of the first token"),
        requires=[
            clause("first", lambda a: within(a.first, 0, 2**30)),
            clause("ring", lambda a: within(a.R, 1, 2**20)),
            clause("fits", lambda a: a.T <= most(a)),
        ],
        accesses=[
            Access("out", "may", (each("T"),), always, lambda a, t: ((a.first + t) % a.R,), "ring rows"),
        ],
    )  # fmt: skip


@triton.jit
def ring_write(x, out, T, R, first, BAD: tl.constexpr):
    t = tl.program_id(0)
    c = tl.arange(0, 32)
    place = (first + t) % (R - 1 if BAD else R)
    tl.store(out + place.to(tl.int64) * 32 + c, tl.load(x + t.to(tl.int64) * 32 + c))  # fault


TWO = ring(lambda a: a.R)
TWO = contract(*TWO.arguments, requires=[*TWO.requires, clause("two", lambda a: a.R >= 2)], accesses=TWO.accesses)
pair("ring_write", "ring aliasing", ring_write, TWO, lambda a: (a.T,), WRITER, MAP)


@triton.jit
def ring_tail(x, out, T, R, first, BAD: tl.constexpr):
    t = tl.program_id(0)
    c = tl.arange(0, 32)
    if (t < T - 2 * R) if BAD else (t < T - R):
        return
    place = (first + t) % R
    tl.store(out + place.to(tl.int64) * 32 + c, tl.load(x + t.to(tl.int64) * 32 + c))  # fault


pair("ring_tail", "chunk longer than ring", ring_tail, ring(lambda a: 2**20), lambda a: (a.T,), WRITER)


@triton.jit
def ring_runs(x, out, T, R, first, RUN: tl.constexpr, BAD: tl.constexpr):
    """Runs of RUN positions, with a gap as long behind each."""
    t = tl.program_id(0)
    c = tl.arange(0, 32)
    place = (first + t) % 16
    row = place // RUN * (RUN if BAD else 2 * RUN) + place % RUN
    row = row // 2 if BAD else row
    tl.store(out + row.to(tl.int64) * 32 + c, tl.load(x + t.to(tl.int64) * 32 + c))  # fault


RUNS = contract(
    *ring(lambda a: 16).arguments,
    requires=[*ring(lambda a: 16).requires, clause("rows", lambda a: a.R >= 32)],
    accesses=[
        Access("out", "may", (each("T"),), always, lambda a, t: ((a.first + t) % 16 // 4 * 8 + (a.first + t) % 4,), "rows"),
    ],
)  # fmt: skip
pair("ring_runs", "ring aliasing", ring_runs, RUNS, lambda a: (a.T,), WRITER, MAP, RUN=4)

CHUNKS = contract(
    array("x", "T", 32), ints("pos", "T"), ints("cu", "ends"), ints("slot", "bs"), array("out", "slots", 16, 32, role="inout"),
    requires=[
        clause("ends", lambda a: a.ends >= a.bs + 1),
        clause("tokens", lambda a: (a.cu[0] >= 0) & (a.cu[a.bs] <= a.T)),
        clause("order", lambda a, b: a.cu[b] <= a.cu[b + 1], each("bs", "b")),
        clause("slots", lambda a, b: within(a.slot[b], 0, a.slots), each("bs", "b")),
        clause("own slot", lambda a, b, c: a.slot[b] != a.slot[c], each("bs", "b"), Index("c", low=lambda a, b: b + 1, stop=lambda a, b: a.bs)),
        clause("consecutive", lambda a, b, t: a.pos[t] == a.pos[a.cu[b]] + t - a.cu[b], each("bs", "b"), Index("t", low=lambda a, b: a.cu[b], stop=lambda a, b: a.cu[b + 1])),
        clause("positions", lambda a, t: within(a.pos[t], 0, 2**30), each("T")),
    ],
    accesses=[
        writes(
            "out",
            [each("bs", "b"), Index("t", low=lambda a, b: maximum(a.cu[b], a.cu[b + 1] - 16), stop=lambda a, b: a.cu[b + 1])],
            lambda a, b, t: (a.slot[b], a.pos[t] % 16),
        ),
    ],
)  # fmt: skip


@triton.jit
def chunks(x, pos, cu, slot, out, T, ends, bs, slots, BAD: tl.constexpr):
    b, k = tl.program_id(0), tl.program_id(1)
    c = tl.arange(0, 32)
    start, stop = tl.load(cu + b), tl.load(cu + b + 1)
    t = tl.maximum(start, stop - (17 if BAD else 16)) + k
    if t < stop:
        s, p = tl.load(slot + b).to(tl.int64), tl.load(pos + t)
        value = tl.load(x + t.to(tl.int64) * 32 + c)
        tl.store(out + (s * 16 + p % 16) * 32 + c, value)  # fault


pair("chunks", "chunk longer than ring", chunks, CHUNKS, lambda a: (a.bs, 32), WRITER, MAP)


@triton.jit
def chunk_rows(x, pos, cu, slot, out, T, ends, bs, slots, BAD: tl.constexpr):
    """Programs of four tokens each."""
    b = tl.program_id(0)
    k = tl.program_id(1) * 4 + tl.arange(0, 4)
    c = tl.arange(0, 32)
    start, stop = tl.load(cu + b), tl.load(cu + b + 1)
    t = tl.maximum(start, stop - 16) + k
    live = (t < stop) & (t < T) if BAD else t < stop
    s = tl.load(slot + (b // 2 if BAD else b)).to(tl.int64)
    p = tl.load(pos + t, mask=live, other=0)
    at = (s * 16 + p % 16)[:, None] * 32 + c[None, :]
    value = tl.load(x + t.to(tl.int64)[:, None] * 32 + c[None, :], mask=live[:, None])
    tl.store(out + at, value, mask=live[:, None])  # fault


pair("chunk_rows", "slot-map indirection", chunk_rows, CHUNKS, lambda a: (a.bs, 4), WRITER, MAP)

# ---- ragged slices ---------------------------------------------------------------------------------

RAGGED = contract(
    ints("indptr", "ends"), array("x", "T", 16), array("out", "cells", role="inout"),
    requires=[
        clause("ends", lambda a: a.ends >= a.T + 1),
        clause("bounds", lambda a: (a.indptr[0] >= 0) & (a.indptr[a.T] <= a.cells)),
        clause("order", lambda a, t: a.indptr[t] <= a.indptr[t + 1], each("T")),
    ],
    accesses=[
        writes(
            "out",
            [each("T"), Index("k", stop=lambda a, t: minimum(a.indptr[t + 1] - a.indptr[t], 16))],
            lambda a, t, k: (a.indptr[t] + k,),
        ),
    ],
)  # fmt: skip


@triton.jit
def ragged(indptr, x, out, ends, T, cells, BAD: tl.constexpr):
    t = tl.program_id(0)
    k = tl.arange(0, 16)
    start, end = tl.load(indptr + t), tl.load(indptr + t + 1)
    live = (start + k <= end) if BAD else (start + k < end)
    tl.store(out + start + k, tl.load(x + t.to(tl.int64) * 16 + k), mask=live)  # fault


pair("ragged", "ragged slices", ragged, RAGGED, lambda a: (a.T,), WRITER, BOUNDS, MAP)

TAIL = contract(
    *RAGGED.arguments, requires=RAGGED.requires,
    accesses=[
        writes(
            "out",
            [each("T"), Index("k", stop=lambda a, t: minimum(a.indptr[t + 1] - a.indptr[t], 16))],
            lambda a, t, k: (a.indptr[t + 1] - minimum(a.indptr[t + 1] - a.indptr[t], 16) + k,),
        ),
    ],
)  # fmt: skip


@triton.jit
def ragged_tail(indptr, x, out, ends, T, cells, BAD: tl.constexpr):
    t = tl.program_id(0)
    k = tl.arange(0, 16)
    start, end = tl.load(indptr + t), tl.load(indptr + t + 1)
    n = tl.minimum(end - start, 16)
    first = start if BAD else end - n
    tl.store(out + first + k, tl.load(x + t.to(tl.int64) * 16 + k), mask=k < n)  # fault


pair("ragged_tail", "ragged slices", ragged_tail, TAIL, lambda a: (a.T,), MAP)

# ---- loops ------------------------------------------------------------------------------------------

TOTAL = contract(
    array("x", "n"),
    array("out", 64, role="out"),
    accesses=[writes("out", [Index("i", stop=lambda a: 64)], lambda a, i: (i,))],
)


@triton.jit
def loop_sum(x, out, n, B: tl.constexpr, BAD: tl.constexpr):
    i = tl.arange(0, B)
    total = tl.zeros([B], tl.float32)
    for start in range(0, n, B):
        at = start + i
        total += tl.load(x + at, mask=(at <= n) if BAD else (at < n), other=0.0)  # fault
    tl.store(out + i, total)


pair("loop_sum", "loop", loop_sum, TOTAL, lambda a: (1,), BOUNDS, B=64)


@triton.jit
def loop_pointer(x, out, n, B: tl.constexpr, BAD: tl.constexpr):
    i = tl.arange(0, B)
    total = tl.zeros([B], tl.float32)
    p = x + i
    for start in range(0, n // B):
        total += tl.load(p)  # fault
        p += B + 1 if BAD else B
    tl.store(out + i, total)


pair("loop_pointer", "loop", loop_pointer, TOTAL, lambda a: (1,), BOUNDS, B=64)


@triton.jit
def loop_store(x, out, n, B: tl.constexpr, BAD: tl.constexpr):
    i = tl.arange(0, B)
    step: tl.constexpr = B - 1 if BAD else B
    for start in range(0, n, step):
        at = start + i
        tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)  # fault


pair("loop_store", "loop", loop_store, COPY, lambda a: (1,), WRITER, MAP, B=64)


@triton.jit
def loop_strided(x, out, n, BAD: tl.constexpr):
    t = tl.program_id(0)
    step = tl.num_programs(0) - (1 if BAD else 0)
    for i in range(t, n, step):
        tl.store(out + i, tl.load(x + i))  # fault


GRID_STRIDE = contract(
    array("x", "n"), OUT, Scalar("workers", "programs"),
    requires=[clause("workers", lambda a: within(a.workers, 2, 2**16))], accesses=COPY.accesses,
)  # fmt: skip
pair(
    "loop_strided", "loop", loop_strided, GRID_STRIDE, lambda a: (a.workers,), WRITER, MAP, abstains=(WRITER, MAP)
)


@triton.jit
def loop_offset(x, out, T, D: tl.constexpr, BAD: tl.constexpr):
    c = tl.arange(0, D)
    offset = tl.program_id(0) * 0
    if not BAD:
        offset = offset.to(tl.int64)
    total = tl.zeros([D], tl.float32)
    for t in range(T):
        total += tl.load(x + offset + c)
        offset += D  # fault
    tl.store(out + c, total)


LONG = contract(array("x", "T", 64), array("out", 64, role="out"), accesses=TOTAL.accesses)
pair("loop_offset", "loop", loop_offset, LONG, lambda a: (1,), WRAP, D=64)


@triton.jit
def loop_table(table, x, out, columns, blocks, BAD: tl.constexpr):
    c = tl.arange(0, 64)
    total = tl.zeros([64], tl.float32)
    for k in range(columns + 1 if BAD else columns):
        block = tl.load(table + k).to(tl.int64)  # fault
        total += tl.load(x + block * 64 + c, mask=block >= 0, other=0.0)
    tl.store(out + c, total)


LISTED = contract(
    ints("table", "columns"), array("x", "blocks", 64), array("out", 64, role="out"),
    requires=[clause("blocks", lambda a, k: within(a.table[k], -1, a.blocks), each("columns", "k"))],
    accesses=TOTAL.accesses,
)  # fmt: skip
pair("loop_table", "loop", loop_table, LISTED, lambda a: (1,), BOUNDS)


@triton.jit
def loop_slice(indptr, x, out, ends, T, cells, BAD: tl.constexpr):
    t = tl.program_id(0)
    start, end = tl.load(indptr + t), tl.load(indptr + t + 1)
    for i in range(start, end):
        tl.store(out + i + (1 if BAD else 0), 1.0)  # fault


SLICES = contract(
    *RAGGED.arguments, requires=RAGGED.requires,
    accesses=[
        writes(
            "out",
            [each("T"), Index("k", low=lambda a, t: a.indptr[t], stop=lambda a, t: a.indptr[t + 1])],
            lambda a, t, k: (k,),
        ),
    ],
)  # fmt: skip
pair("loop_slice", "loop", loop_slice, SLICES, lambda a: (a.T,), BOUNDS, MAP)


@triton.jit
def loop_while(x, out, n, BAD: tl.constexpr):
    i = tl.program_id(0)
    total = 0.0
    while (i <= n) if BAD else (i < n):
        total += tl.load(x + i)  # fault
        i += 2
    tl.store(out + tl.program_id(0), total)


pair(
    "loop_while", "loop", loop_while, contract(array("x", "n"), OUT, accesses=[EACH_OUT]), lambda a: (a.n,), BOUNDS
)

# ---- indices through floats ----------------------------------------------------------------------


def below(limit):
    """Indices below a limit, into a tensor of any size."""
    return contract(
        ints("at", "n"), array("x", "m"), OUT,
        requires=[clause("indices", lambda a, t: within(a.at[t], 0, minimum(a.m, limit)), each("n"))],
        accesses=[EACH_OUT],
    )  # fmt: skip


@triton.jit
def through_float(at, x, out, n, m, BAD: tl.constexpr):
    t = tl.program_id(0)
    k = tl.load(at + t)
    if BAD:
        k = k.to(tl.float32).to(tl.int32)  # fault
    tl.store(out + t, tl.load(x + k))


pair("through_float", "fp32 index round-off", through_float, below(2**31 - 1), lambda a: (a.n,), WRAP, BOUNDS)


@triton.jit
def float_offset(at, x, out, n, m, BAD: tl.constexpr):
    t = tl.program_id(0)
    k = tl.load(at + t)
    f = k.to(tl.float32)
    if BAD:
        f = f * 3.0  # fault
        k = (f * 1.0).to(tl.int32)
    else:
        k = f.to(tl.int32)
    tl.store(out + t, tl.load(x + k, mask=k < m, other=0.0))


pair("float_offset", "fp32 index round-off", float_offset, below(2**24), lambda a: (a.n,), WRAP, BOUNDS)


@triton.jit
def half_index(at, x, out, n, m, BAD: tl.constexpr):
    t = tl.program_id(0)
    k = tl.load(at + t)
    if BAD:
        k = k.to(tl.float16).to(tl.int32)  # fault
    else:
        k = k.to(tl.float32).to(tl.int32)
    tl.store(out + t, tl.load(x + k, mask=k < m, other=0.0))


pair("half_index", "fp32 index round-off", half_index, below(2**20), lambda a: (a.n,), WRAP, BOUNDS)
