"""Launches that share what depends on no memory: each sees its own memory, layouts and scalars, and is checked."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

import triton  # noqa: E402
import triton.language as tl  # noqa: E402

from kvproof.harness.ir.compile import CompileError, signature_of, specialise  # noqa: E402
from kvproof.harness.ir.execute import Kind, collisions  # noqa: E402
from kvproof.harness.ir.execute.starts import Start, Starts  # noqa: E402


@triton.jit
def move(x, to, out, n, scale, B: tl.constexpr):
    """out[to[i]] = x[i] / scale, i < n; in two places, so that both masks and branches are there."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    live = i < n
    value = tl.load(x + i, mask=live, other=0.0) / scale
    if tl.load(to) >= 0:
        tl.store(out + tl.load(to + i, mask=live, other=0), value, mask=live)


def int32(*values):
    return torch.tensor(values, dtype=torch.int32)


def test_equal_launches_read_their_own_memory(run):
    for x, to in (([1.0, 2, 3], [2, 0, 1]), ([4.0, 5, 6], [0, 1, 2]), ([7.0, 8, 9], [-1, 0, 0])):
        out = torch.zeros(3)
        assert run(move, (1,), torch.tensor(x), int32(*to), out, 3, 2.0, B=4) == []
        want = torch.zeros(3)
        if to[0] >= 0:
            want[torch.tensor(to)] = torch.tensor(x) / 2
        assert torch.equal(out, want)


def test_a_fault_is_reported_each_time_and_in_its_own_launch_only(run):
    x, out = torch.ones(3), torch.zeros(3)
    for to, kind in (
        ([0, 1, 2], None),
        ([0, 1, 3], Kind.OUT_OF_BOUNDS),
        ([0, 1, 3], Kind.OUT_OF_BOUNDS),
        ([0, 2, 2], Kind.COLLISION),
        ([2, 1, 0], None),
    ):
        assert [r.kind for r in run(move, (1,), x, int32(*to), out, 3, 1.0, B=4)] == ([kind] if kind else [])


def test_an_address_that_no_memory_decides_is_checked_against_each_layout(run):
    out, to = torch.zeros(4), int32(0, 1, 2, 3)
    whole = torch.ones(16)
    for x, good in (
        (whole[:4], True),
        (whole[:3], False),
        (whole[::4], False),
        (whole[4:8], True),
        (whole[:3], False),
    ):
        reports = run(move, (1,), x, to, out, 4, 1.0, B=4)
        assert [(r.kind, r.buffer) for r in reports] == ([] if good else [(Kind.OUT_OF_BOUNDS, "x")])


def test_scalars_grids_and_signs_of_zero_are_told_apart(run):
    x, to = torch.ones(8), int32(*range(8))
    for grid, n, scale in ((2, 8, 2.0), (1, 8, 2.0), (2, 5, 2.0), (2, 8, 0.0), (2, 8, -0.0), (2, 8, 2.0)):
        out = torch.zeros(8)
        assert run(move, (grid,), x, to, out, n, scale, B=4) == []
        count = min(n, 4 * grid)
        assert torch.equal(out, torch.cat([torch.ones(count) / scale, torch.zeros(8 - count)]))


def test_what_is_kept_stays_below_its_bound():
    kept = Starts(1 << 20)
    value = np.zeros(1 << 12, np.int64)
    for name in range(40):
        kept.keep(name, Start(None, [value.copy()], np.zeros(1, np.int64), {}), [0])
    there = [name for name in range(40) if kept.get(name) is not None]
    assert there == list(range(40 - len(there), 40))
    assert 10 <= len(there) <= 15
    kept.keep("large", Start(None, [np.zeros(1 << 17, np.int64)], np.zeros(1, np.int64), {}), [0])
    assert kept.get("large") is None
    last = kept.get(39)
    assert last is not None
    assert last.values[0] is not None
    assert not last.values[0].flags.writeable


ARGUMENTS = st.sampled_from(
    [0, 1, 2, True, False, 0.0, -0.0, 1.0, 2**31, -(2**31), 2**63, None, torch.ones(1), torch.ones(2), int32(1)]
)
CONSTANTS = st.sampled_from([0, 1, True, 1.0, 0.0, -0.0, None, "a", (1,), (True,), (0.0,), (-0.0,)])


@triton.jit(do_not_specialize=["b"])
def takes(a, b, c: tl.constexpr, d: tl.constexpr = 4):  # pyright: ignore[reportArgumentType]
    tl.static_assert(True)


LAUNCHES = st.tuples(ARGUMENTS, ARGUMENTS, CONSTANTS) | st.tuples(ARGUMENTS, ARGUMENTS, CONSTANTS, CONSTANTS)


@given(LAUNCHES, LAUNCHES)
def test_specialisations_are_told_apart_as_signatures_are(one, two):
    (key, values), (other, _) = specialise(takes, one, {}), specialise(takes, two, {})
    signature, named = signature_of(takes, one, {})
    assert (key == other) == (signature.key == signature_of(takes, two, {})[0].key)
    assert list(values) == list(named)
    assert all(values[name] is named[name] for name in named)


def test_a_missing_argument_is_named():
    with pytest.raises(CompileError, match="takes: argument c is missing"):
        specialise(takes, (1, 2), {})


@given(st.data())
def test_repeated_cells_are_found_however_many_there_are(data):
    count = data.draw(st.sampled_from([600, 5000, collisions._MOST_MARKS + 1]))
    number = data.draw(st.sampled_from([2, 3, 511, 512, 600]))
    cells = np.random.default_rng(data.draw(st.integers(0, 99))).permutation(600)[:number].astype(np.int64)
    assert not collisions.repeats(cells, count)
    a, b = data.draw(st.lists(st.integers(0, number - 1), min_size=2, max_size=2, unique=True))
    cells[a] = cells[b]
    assert collisions.repeats(cells, count)
