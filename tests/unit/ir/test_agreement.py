"""Agreement of two devices: what may differ, by how much, and that nothing else may."""

from dataclasses import replace

import numpy as np
import pytest

from kvproof.harness.check.agreement import agreement
from kvproof.models.contract import Access, Approximate, Contract, Index, Tensor, contiguous

ROWS = (Index("i", stop=lambda a: a.n),)


def _near(a, i):
    return Approximate(a.x[i].astype(np.float64), np.full((i.size, 4), 0.5))


CONTRACT = Contract(
    "copy",
    "Floats within a bound, indices exactly.",
    (
        Tensor("x", "fp32", ("n", 4), ""),
        Tensor("y", "fp32", ("n", 4), "", role="out"),
        Tensor("k", "int32", ("n",), "", role="out"),
        Tensor("scratch", "fp32", ("n",), "", role="inout"),
    ),
    (),
    (),
    (
        Access("y", "must", ROWS, lambda _a, i: i != 1, lambda _a, i: (i,), "rows but one", bound=_near),
        Access("k", "must", ROWS, lambda _a, i: i >= 0, lambda _a, i: (i,), "all", value=lambda _a, i: i),
        Access("scratch", "may", ROWS, lambda _a, i: i > 0, lambda _a, i: (i,), "all but the first"),
    ),
)


def _results(**changed):
    values = {
        "x": contiguous("fp32", np.arange(12, dtype=np.float32), (3, 4)),
        "y": contiguous("fp32", np.arange(12, dtype=np.float32), (3, 4)),
        "k": contiguous("int32", [0, 1, 2]),
        "scratch": contiguous("fp32", np.zeros(3, np.float32)),
    }
    for name, (at, value) in changed.items():
        values[name] = values[name].copy()
        values[name].storage[at] = value
    return values


def _compared(one, two):
    return agreement(CONTRACT, _results(), one, two)


def test_the_same_bits_agree():
    found = _compared(_results(), _results())
    assert (found.elements, found.equal, found.differences) == (30, 30, [])


def test_floats_may_differ_as_long_as_both_are_within_the_bound():
    found = _compared(_results(y=(0, 0.5)), _results(y=(0, -0.5)))
    assert (found.bounded, found.worst, found.differences) == (1, 2.0, [])


@pytest.mark.parametrize("side", [0, 1])
def test_one_side_outside_the_bound_is_a_difference(side):
    sides = [_results(), _results()]
    sides[side] = _results(y=(0, 0.5625))
    (words,) = _compared(*sides).differences
    assert words.startswith("y: 1 elements differ, first 0")


def test_a_float_that_no_write_has_a_bound_for_must_have_the_same_bits():
    (words,) = _compared(_results(y=(4, 4.25)), _results()).differences  # row 1 is not written
    assert words.startswith("y: 1 elements differ, first 4")


def test_minus_zero_is_not_zero_where_bits_count():
    assert _compared(_results(scratch=(0, -0.0)), _results()).differences


def test_what_only_a_failing_launch_writes_must_have_the_same_bits():
    failing = Access("scratch", "failing", ROWS, lambda _a, i: i >= 0, lambda _a, i: (i,), "a stage's number")
    contract = replace(CONTRACT, accesses=(*CONTRACT.accesses[:2], failing))
    assert agreement(contract, _results(), _results(scratch=(1, 7)), _results()).differences


def test_what_may_be_written_is_open():
    found = _compared(_results(scratch=(1, 7)), _results())
    assert (found.open, found.differences) == (1, [])


def test_an_index_off_by_one_is_a_difference():
    (words,) = _compared(_results(k=(2, 3)), _results()).differences
    assert words == "k: 1 elements differ, first 2 of the storage: 0x3, 0x2"
