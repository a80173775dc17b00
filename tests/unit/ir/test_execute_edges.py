"""The executor at the edges: parts of elements, gaps inside an access, what torch wrote, look-alike constants."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

import triton  # noqa: E402
import triton.language as tl  # noqa: E402

from kvproof.harness.ir.compile import Signature  # noqa: E402
from kvproof.harness.ir.execute import Kind  # noqa: E402
from kvproof.harness.ir.launch import Executor, tracking_empty  # noqa: E402


@pytest.fixture(scope="module")
def executor():
    return Executor()


@pytest.fixture
def run(executor):
    def launch(kernel, grid, *args, **meta):
        executor(kernel, grid, *args, **meta)
        return executor.take()

    yield launch
    executor.take()


@triton.jit
def by_bytes(x, out, shift):
    """An element of x that many bytes on."""
    moved = (x.to(tl.pointer_type(tl.uint8)) + shift).to(tl.pointer_type(tl.int16))
    tl.store(out, tl.load(moved))


@pytest.mark.parametrize("step", [1, 2])
def test_an_access_of_the_items_width_at_half_an_item_is_misaligned(run, step):
    x, out = torch.arange(8, dtype=torch.int16)[::step], torch.full((1,), 9, dtype=torch.int16)
    assert run(by_bytes, (1,), x, out, 4) == []
    assert out.tolist() == [2]
    for shift in (1, 5, 9):
        (report,) = run(by_bytes, (1,), x, out, shift)
        assert (report.kind, report.buffer, report.element) == (Kind.MISALIGNED, "x", shift // 2)
        assert f"2-byte access at byte {shift} of the storage" in report.words
    # Beyond the view it is that first.
    (report,) = run(by_bytes, (1,), x, out, 15)
    assert report.kind is Kind.OUT_OF_BOUNDS


@triton.jit
def by_bytes_of_a_row(x, out, rows, shift):
    """The last of the rows, by a pointer that a loop moves in bytes."""
    row = x.to(tl.pointer_type(tl.uint8))
    for _ in range(rows):
        row = row + shift
    tl.store(out + tl.arange(0, 4), tl.load(row.to(tl.pointer_type(tl.int32)) + tl.arange(0, 4)))


def test_a_loop_of_bytes_may_end_between_two_elements(run):
    x, out = torch.arange(32, dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    assert run(by_bytes_of_a_row, (1,), x, out, 4, 6) == []
    assert out.tolist() == [6, 7, 8, 9]
    (report,) = run(by_bytes_of_a_row, (1,), x, out, 3, 6)
    assert (report.kind, report.count) == (Kind.MISALIGNED, 4)


@triton.jit
def four_at_once(x, out, at):
    tl.store(out, tl.load(x.to(tl.pointer_type(tl.int32)) + at))


def test_a_gap_in_the_middle_of_a_wide_access_is_outside(run):
    out = torch.zeros(1, dtype=torch.int32)
    whole = torch.arange(24, dtype=torch.uint8)
    assert run(four_at_once, (1,), whole, out, 2) == []
    assert out.item() == int.from_bytes(bytes(range(8, 12)), "little")
    # Rows of 7 bytes, 1 apart: bytes 4..7 and 8..11 differ in where the gap (byte 7) is.
    rows = whole.as_strided((3, 7), (8, 1))
    assert [r.kind for r in run(four_at_once, (1,), rows, out, 1)] == [Kind.OUT_OF_BOUNDS]
    assert run(four_at_once, (1,), rows, out, 2) == []
    # The first and the last byte are in the view, those between are not.
    for step in (3, 1):
        reports = run(four_at_once, (1,), whole[::step], out, 0)
        assert [r.kind for r in reports] == ([Kind.OUT_OF_BOUNDS] if step == 3 else [])


@triton.jit
def copy(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, mask=i < n, other=7), mask=i < n)


@triton.jit
def some_bytes(x, first, second):
    tl.store(x + first, 1)
    tl.store(x + second, 2)


def test_a_wide_read_of_which_the_middle_was_never_written(executor, run):
    out = torch.zeros(1, dtype=torch.int32)
    with tracking_empty(executor.undefined):
        x = torch.empty(4, dtype=torch.uint8)
    executor(some_bytes, (1,), x, 0, 3)
    (report,) = run(four_at_once, (1,), x, out, 0)
    assert report.kind is Kind.NEVER_WRITTEN
    executor.undefined(x)
    executor(some_bytes, (1,), x, 0, 3)
    executor(some_bytes, (1,), x, 2, 1)
    assert run(four_at_once, (1,), x, out, 0) == []


@triton.jit
def four_or_other(x, out, n):
    tl.store(out, tl.load(x.to(tl.pointer_type(tl.int32)), mask=n > 0, other=7))


@pytest.mark.parametrize("count", [0, 2])
def test_nothing_is_read_of_less_than_an_element(executor, run, count):
    with tracking_empty(executor.undefined):
        x = torch.empty(count, dtype=torch.uint8)
    out = torch.zeros(1, dtype=torch.int32)
    assert run(four_or_other, (1,), x, out, 0) == []
    assert out.item() == 7
    executor.undefined(x)
    assert [r.kind for r in run(four_or_other, (1,), x, out, 2)] == [Kind.OUT_OF_BOUNDS]


ALLOCATIONS = {
    "empty": lambda like: torch.empty(8, dtype=like.dtype),
    "empty_like": lambda like: torch.empty_like(like, dtype=like.dtype),
    "empty_permuted": lambda like: torch.empty_permuted((8,), (0,), dtype=like.dtype),
    "new_empty": lambda like: like.new_empty(8),
    "new_empty_strided": lambda like: like.new_empty_strided((8,), (1,)),
}


@pytest.mark.parametrize("how", ALLOCATIONS)
def test_every_way_to_allocate_without_filling_is_seen(executor, run, how):
    like, out = torch.zeros(8, dtype=torch.int32), torch.zeros(8, dtype=torch.int32)
    with tracking_empty(executor.undefined):
        fresh = ALLOCATIONS[how](like)
    (report,) = run(copy, (1,), fresh, out, 5, B=8)
    assert (report.kind, report.count) == (Kind.NEVER_WRITTEN, 5)
    # Outside, torch is as it was.
    assert run(copy, (1,), ALLOCATIONS[how](like), out, 5, B=8) == []


FILLS = {
    "fill_": lambda x: x.fill_(3),
    "copy_": lambda x: x.copy_(torch.full((8,), 3, dtype=torch.int32)),
    "of a view": lambda x: x.view(2, 4)[:].fill_(3),
    "out=": lambda x: torch.add(torch.full((8,), 1, dtype=torch.int32), 2, out=x),
}


@pytest.mark.parametrize("how", FILLS)
def test_what_torch_wrote_is_written(executor, run, how):
    out = torch.zeros(8, dtype=torch.int32)
    with tracking_empty(executor.undefined):
        x, other = torch.empty(8, dtype=torch.int32), torch.empty(8, dtype=torch.int32)
    FILLS[how](x)
    executor(copy, (1,), other, out, 1, B=8)
    assert [r.kind for r in executor.reports] == [Kind.NEVER_WRITTEN]
    executor.reports.clear()
    assert run(copy, (1,), x, out, 8, B=8) == []
    assert out.tolist() == [3] * 8


@triton.jit
def plus_first(x, out, T: tl.constexpr):
    tl.store(out, tl.load(x) + T[0])


def test_constants_that_compare_equal_are_compiled_apart(run):
    x, out = torch.tensor([2**24 + 1], dtype=torch.int32), torch.zeros(1, dtype=torch.int64)
    # As a float 2**24 + 1 is 2**24, and so is one more.
    for first, expected in ((1, 2**24 + 2), (1.0, 2**24), (1, 2**24 + 2)):
        assert run(plus_first, (1,), x, out, T=(first,)) == []
        assert out.item() == expected


def test_specialisations_are_equal_by_type_and_bits():
    apart = [
        0,
        False,
        0.0,
        -0.0,
        1,
        True,
        1.0,
        (1,),
        (True,),
        (1.0,),
        [1],
        ((0.0,),),
        ((-0.0,),),
        "1",
        None,
        (None,),
    ]
    keys = [Signature({}, {"c": constant}).key for constant in apart]
    assert len(set(keys)) == len(apart)
    nan = [Signature({}, {"c": (float("nan"), tl.constexpr(-0.0))}).key for _ in range(2)]
    assert nan[0] == nan[1]
    assert nan[0] != Signature({}, {"c": (float("nan"), tl.constexpr(0.0))}).key
