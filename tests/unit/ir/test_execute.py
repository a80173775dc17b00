"""The executor on kernels of every kind of operation, against numpy; and what it reports."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

import triton  # noqa: E402
import triton.language as tl  # noqa: E402

from kvproof.harness.ir.execute import Kind  # noqa: E402
from kvproof.harness.ir.launch import Executor, tracking_empty  # noqa: E402


@pytest.fixture(scope="module")
def corpus():
    path = Path(__file__).resolve().parents[2] / "data" / "ttir" / "kernels.py"
    spec = importlib.util.spec_from_file_location("ttir_kernels", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["ttir_kernels"] = module
    spec.loader.exec_module(module)
    return module


def _i32(values):
    return torch.tensor(np.asarray(values), dtype=torch.int32)


def test_integers(corpus, run):
    rng = np.random.default_rng(1)
    a = rng.integers(-(2**31), 2**31, 128, dtype=np.int64)
    b = rng.integers(1, 2**31, 128, dtype=np.int64) * rng.choice([-1, 1], 128)
    a[:3], b[:3] = (-7, 7, -(2**31)), (2, -2, 3)
    out = torch.zeros(128, dtype=torch.int32)
    assert run(corpus.integers, (1,), _i32(a), _i32(b), out, B=128) == []
    mask = 2**32
    expected = []
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        u, v = x % mask, y % mask
        q = abs(x) // abs(y) * (-1 if (x < 0) != (y < 0) else 1)
        r = q + (x - q * y) - (x & y) + (x | y) + (x ^ y) + (x << 3) + (x >> 2) - x
        r += min(x, y) + max(x, y) + abs(x) + (u * v >> 32)
        r += u // v + u % v + (u >> 3) + (x if u < v else y) + (x == y) + (x != y)
        low = x % 256
        r += (x * y >> 5) + (low - 256 if low > 127 else low) + low
        expected.append((r + 2**31) % mask - 2**31)
    assert out.tolist() == expected


def test_floats(corpus, run):
    rng = np.random.default_rng(2)
    a, b = (torch.tensor(rng.normal(size=128), dtype=torch.float32) for _ in range(2))
    out, half = torch.zeros(128), torch.zeros(128, dtype=torch.bfloat16)
    eight = torch.zeros(128, dtype=torch.float8_e5m2)
    assert run(corpus.floats, (1,), a, b, out, half, eight, B=128) == []
    x, y = a.double(), b.double()
    r = x.exp() + y.exp2() + (x.abs() + 1).log() + (y.abs() + 1).log2() + x.abs().sqrt()
    r = r + (y.abs() + 1).rsqrt() + x.sin() * y.cos() + x.floor() - y.ceil() + (x * y + r)
    # The kernel's fma takes r as it was before the statement; here it is the sum so far.
    so_far = x.exp() + y.exp2() + (x.abs() + 1).log() + (y.abs() + 1).log2() + x.abs().sqrt()
    r = so_far + (y.abs() + 1).rsqrt() + x.sin() * y.cos() + x.floor() - y.ceil() + (x * y + so_far)
    r = r + torch.maximum(x, y) + torch.minimum(x, y) + x.clamp(-1, 1) + x.erf() + x / y + x
    r = r + torch.where(x < y, x, y) + x.trunc() + y.abs().sqrt()
    assert torch.allclose(out.double(), r, rtol=1e-5, atol=1e-5)
    assert torch.equal(half, out.bfloat16())
    assert torch.equal(eight.view(torch.uint8), out.to(torch.float8_e5m2).view(torch.uint8))


def test_reductions_scans_and_their_ties(corpus, run):
    rng = np.random.default_rng(3)
    x = rng.integers(-4, 5, (8, 16)).astype(np.float32)
    out, outi = torch.zeros(2 * 8 + 128 + 1), torch.zeros(8 + 16, dtype=torch.int32)
    assert run(corpus.reductions, (1,), torch.tensor(x), out, outi, M=8, N=16) == []
    assert np.array_equal(out[:8], x.sum(1) + x.max(1) + x.min(1))
    assert np.array_equal(out[8:16], x.max(1))
    assert np.array_equal(out[16:144].reshape(8, 16), x.cumsum(1))
    assert out[144] == x.sum()
    assert np.array_equal(outi[:8], 2 * x.argmax(1) + x.argmin(1))
    best = np.bitwise_xor.reduce(x.argmax(1))
    assert np.array_equal(outi[8:], (x > 0).sum(0) + best)


def test_shapes(corpus, run):
    x = torch.arange(128.0).reshape(8, 16)
    out = torch.zeros(128 + 256)
    assert run(corpus.shapes, (1,), x, out, M=8, N=16) == []
    assert torch.equal(out[:128].reshape(8, 16), x.flip(1))
    flat = x.T.reshape(-1)
    assert torch.equal(out[128:], torch.cat([flat, flat + 1]))


def test_products(corpus, run):
    torch.manual_seed(4)
    a, b = torch.randn(16, 32).bfloat16(), torch.randn(32, 16).bfloat16()
    c = torch.zeros(16, 16)
    assert run(corpus.products, (1,), a, b, c, M=16, N=16, K=32) == []
    assert torch.allclose(c.double(), a.double() @ b.double(), rtol=1e-6)


def test_atomics_see_each_other_in_order(corpus, run):
    values = _i32([3, 3, 5, 3] + [7] * 28)
    counts, out = torch.zeros(128, dtype=torch.int32), torch.full((32,), -9, dtype=torch.int32)
    assert run(corpus.atomics, (1,), values, counts, out, 5, B=32) == []
    assert counts[[3, 5, 7]].tolist() == [3, 1, 1]
    assert out[:6].tolist() == [0, 1, 0, 2, 0, -9]
    assert counts[64:96].tolist() == [3, 3, 5, 3, 7] + [0] * 27
    assert counts[96:98].tolist() == [5, 5]


@pytest.mark.parametrize("n", [5, 15, 25, 100])
def test_loops_and_branches(corpus, run, n):
    x = torch.arange(100.0)
    out = torch.zeros(4 * 32)
    reports = run(corpus.loops, (2, 2), x, out, n, B=32)
    # Program (1, 0) and (0, 1) have different linear numbers: no two programs share a row.
    assert reports == []
    total = np.zeros(32)
    count = 0
    for start in range(0, n, 32):
        part = np.arange(start, start + 32)
        total += np.where(part < n, part, 0)
        count += 1
    while count:
        total, count = total * 0.5, count // 2
    total += (3 if n > 20 else 1) if n > 10 else -1
    assert np.array_equal(out.reshape(4, 32), np.broadcast_to(total, (4, 32)).astype(np.float32))


def test_calls_of_functions_that_are_not_inlined(corpus, run):
    x = torch.arange(1.0, 33.0)
    for n, factor in ((3, 1.0), (4, 0.5)):
        out = torch.zeros(32)
        assert run(corpus.calls, (1,), x, out, n, B=32) == []
        assert torch.equal(out, x * factor)


@triton.jit
def each_its_own_way(counts, x, out, n):
    """Programs that return early, loop a different number of times and branch differently."""
    t = tl.program_id(0)
    times = tl.load(counts + t)
    if times < 0:
        return
    total = 0
    for i in range(times):
        if tl.load(x + i) > 3:
            total += i
        else:
            total -= 1
    left = times
    while left > t:
        left = left - 3
        total += 100
    tl.store(out + t, total)


def test_programs_that_part_are_put_together_again(run):
    counts = np.array([4, -1, 0, 9, 2, 7])
    x = np.array([1, 5, 3, 9, 4, 4, 0, 2, 6])
    out = torch.full((6,), -5, dtype=torch.int32)
    assert run(each_its_own_way, (6,), _i32(counts), _i32(x), out, 3) == []
    expected = []
    for t, times in enumerate(counts.tolist()):
        if times < 0:
            expected.append(-5)
            continue
        total = sum(i if x[i] > 3 else -1 for i in range(times))
        left = times
        while left > t:
            left, total = left - 3, total + 100
        expected.append(total)
    assert out.tolist() == expected


@triton.jit
def stores_in_regions(x, out, n):
    """Regions that pass nothing on, whose last operation is a store."""
    t = tl.program_id(0)
    for i in range(n):
        tl.store(out + t * 8 + i, tl.load(x + i) + t)
    if t > 0:
        # A constant of its own, and a loop of different length in each program.
        for i in range(t):
            tl.store(out + t * 8 + 7 - i, t + tl.max(tl.arange(0, 4) * 0 + i, 0))
    else:
        tl.store(out + 6, 60)


def test_regions_that_pass_nothing_run_to_their_end(run):
    out = torch.zeros(3, 8, dtype=torch.int32)
    assert run(stores_in_regions, (3,), _i32([5, 6, 7]), out, 3) == []
    assert out.tolist() == [[5, 6, 7, 0, 0, 0, 60, 0], [6, 7, 8, 0, 0, 0, 0, 1], [7, 8, 9, 0, 0, 0, 3, 2]]


# ---- what is reported -------------------------------------------------------------


@triton.jit
def scatter(x, dest, out, n, stride, B: tl.constexpr):
    t = tl.program_id(0)
    i = tl.arange(0, B)
    row = tl.load(dest + t)
    value = tl.load(x + t * n + i, mask=i < n)
    tl.store(out + row * stride + i, value, mask=i < n)


def _scatter(run, dest, out, width=6, rows=None):
    x = torch.arange(float(len(dest) * width))
    return run(scatter, (len(dest),), x, _i32(dest), out, width, out.stride(0), B=8)


def test_the_last_row_is_in_bounds_and_the_next_is_not(run):
    out = torch.zeros(4, 6)
    assert _scatter(run, [3, 0], out) == []
    before = out.clone()
    (report,) = _scatter(run, [4, 0], out)
    assert (report.kind, report.buffer, report.count, report.program) == (Kind.OUT_OF_BOUNDS, "out", 6, (0, 0, 0))
    assert "element 24" in report.words
    assert report.location.frame.file.endswith("test_execute.py")
    # What lies outside was not written, the rest was.
    assert torch.equal(out[1:], before[1:])


def test_negative_rows_are_out_of_bounds(run):
    (report,) = _scatter(run, [-1, 0], torch.zeros(4, 6))
    assert report.kind is Kind.OUT_OF_BOUNDS
    assert "element -6" in report.words


def test_a_view_ends_where_it_ends_and_its_gaps_are_outside(run):
    whole = torch.zeros(6, 10)
    view = whole[1:5, 2:8]
    assert _scatter(run, [0, 3], view) == []
    assert whole.count_nonzero() == 11
    # One column more than the view has lies in the gap between its rows.
    (report,) = run(scatter, (1,), torch.arange(8.0), _i32([1]), view, 7, 10, B=8)
    assert (report.kind, report.count) == (Kind.OUT_OF_BOUNDS, 1)
    (report,) = _scatter(run, [4], view)
    assert report.kind is Kind.OUT_OF_BOUNDS


def test_two_programs_on_one_row_collide_and_neighbours_do_not(run):
    out = torch.zeros(4, 6)
    assert _scatter(run, [1, 2], out) == []
    (report,) = _scatter(run, [2, 2], out)
    assert (report.kind, report.count, report.same_value) == (Kind.COLLISION, 6, False)
    assert "programs (0, 0, 0) and (1, 0, 0)" in report.words


@triton.jit
def overlapping(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    value = tl.load(x + i)
    tl.store(out + i, value)
    tl.store(out + n + i, value + 1.0)


def test_overlapping_stores_of_one_program_name_both_lines(run):
    assert run(overlapping, (1,), torch.arange(8.0), torch.zeros(16), 8, B=8) == []
    (report,) = run(overlapping, (1,), torch.arange(8.0), torch.zeros(16), 7, B=8)
    assert report.kind is Kind.COLLISION
    assert "two stores of one program" in report.words
    first, second = report.location.frame.line, report.other.frame.line
    assert second == first + 1


@triton.jit
def same_value(out, B: tl.constexpr):
    tl.store(out + tl.arange(0, B) // 2, tl.full([B], 7, tl.int32))


def test_lanes_that_write_the_same_value_are_told_apart(run):
    (report,) = run(same_value, (1,), torch.zeros(8, dtype=torch.int32), B=8)
    assert (report.kind, report.same_value) == (Kind.COLLISION, True)
    assert "two lanes of one store" in report.words


@triton.jit
def copy(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


def test_reads_of_memory_that_nothing_wrote(run):
    executor = Executor()
    with tracking_empty(executor.undefined):
        scratch = torch.empty(8)
    executor(copy, (1,), torch.arange(8.0), scratch, 5, B=8)
    executor(copy, (1,), scratch, torch.zeros(8), 5, B=8)
    assert executor.reports == []
    executor(copy, (1,), scratch, torch.zeros(8), 6, B=8)
    (report,) = executor.take()
    assert (report.kind, report.buffer, report.count) == (Kind.NEVER_WRITTEN, "x", 1)
    assert "element 5" in report.words


@triton.jit
def shift(x, n):
    t = tl.program_id(0)
    tl.store(x + t, tl.load(x + t + n))


def test_reading_what_another_program_writes(run):
    assert run(shift, (4,), torch.arange(8.0), 4) == []
    (report,) = run(shift, (4,), torch.arange(8.0), 3)
    assert report.kind is Kind.RACE
    assert "read by program (0, 0, 0) and written by (3, 0, 0)" in report.words


@triton.jit
def handed_on(x, flags, out, n, AHEAD: tl.constexpr):
    """Program t adds its element to what program t - 1 (or, wrongly, t + 1) left, once that says it is done."""
    t = tl.program_id(0)
    other = t - 1 + 2 * AHEAD
    before = 0
    if (other >= 0) & (other < n):
        tries = 0
        while (tl.atomic_add(flags + other, 0, sem="acquire") == 0) & (tries < 3):
            tries += 1
        before = tl.load(out + other)
    tl.store(out + t, before + tl.load(x + t))
    tl.atomic_xchg(flags + t, 1, sem="release")


def test_programs_that_wait_for_each_other_run_in_order(run):
    x, out, flags = _i32([1, 2, 3, 4]), *(torch.zeros(4, dtype=torch.int32) for _ in range(2))
    assert run(handed_on, (4,), x, flags, out, 4, AHEAD=False) == []
    assert out.tolist() == [1, 3, 6, 10]
    flags.zero_()
    assert Kind.RACE in [r.kind for r in run(handed_on, (4,), x, flags, out, 4, AHEAD=True)]


@triton.jit
def endless(out, n):
    while n > 0:
        tl.store(out, n)
        n = tl.maximum(n, tl.load(out))
    tl.store(out, n)


def test_a_loop_without_end_is_reported(run, monkeypatch):
    monkeypatch.setattr("kvproof.harness.ir.execute.machine.LOOP_LIMIT", 1000)
    assert [r.kind for r in run(endless, (1,), torch.zeros(1, dtype=torch.int32), 5)] == [Kind.ENDLESS]
    assert run(endless, (1,), torch.zeros(1, dtype=torch.int32), 0) == []


@triton.jit
def narrow_offset(x, out, row, stride):
    tl.store(out + tl.program_id(0), tl.load(x + row * stride))


def test_a_32_bit_offset_wraps_as_on_the_device(run):
    x = torch.zeros(1)
    (report,) = run(narrow_offset, (1,), x, torch.zeros(1), 2**22, 512)
    # 2**31 wraps to -2**31: far before the tensor, not after it.
    assert report.kind is Kind.OUT_OF_BOUNDS
    assert f"element {-(2**31)}" in report.words


def test_programs_in_several_rounds_give_the_same(run, monkeypatch):
    monkeypatch.setattr("kvproof.harness.ir.execute.machine.LANES_AT_ONCE", 16)
    out = torch.zeros(4, 6)
    (report,) = _scatter(run, [2, 0, 1, 2], out)
    assert report.kind is Kind.COLLISION
    assert torch.equal(out[2], torch.arange(18.0, 24.0))
