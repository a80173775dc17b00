"""Integer operations with a right operand that is known beforehand: the same bits as with one that is not."""

from __future__ import annotations

import numpy as np
import pytest

from kvproof.harness.ir.execute import integers

EDGES = {
    np.int32: [0, 1, -1, 2, -7, 127, 2**31 - 1, -(2**31), -(2**31) + 1],
    np.int64: [0, 1, -1, 2, -7, 2**31, -(2**31), 2**63 - 1, -(2**63)],
}
ELEMENTS = {np.int32: "i32", np.int64: "i64"}
SHORTENED = ("arith.divsi", "arith.remsi", "arith.shli", "arith.shrsi", "arith.shrui")


@pytest.mark.parametrize("name", SHORTENED)
@pytest.mark.parametrize("carried", EDGES, ids=ELEMENTS.get)
@pytest.mark.parametrize("known", [1, 2, 3, 7, 31, -1, -3])
def test_the_short_form_gives_the_same_bits(name, carried, known):
    a, b = np.array(EDGES[carried], carried), np.array([known], carried)
    alone = integers.by_constant(name, ELEMENTS[carried], b)
    if alone is None:
        assert known < 0, "a shift by a negative amount is one past the width"
        assert name.startswith("arith.sh")
        return
    with np.errstate(all="ignore"):
        short, plain = alone(a), integers.binary(name, ELEMENTS[carried])(a, b)
    assert short.dtype == plain.dtype
    np.testing.assert_array_equal(short, plain)


@pytest.mark.parametrize(
    ("name", "element", "b"),
    [
        ("arith.divsi", "i32", np.array([0], np.int32)),
        ("arith.remsi", "i64", np.array([3, 0], np.int64)),
        ("arith.shli", "i32", np.array([32], np.int32)),
        ("arith.shrui", "i64", np.array([64], np.int64)),
        ("arith.divui", "i32", np.array([3], np.int32)),
        ("arith.shrsi", "i1", np.array([True])),
    ],
)
def test_what_needs_care_has_no_short_form(name, element, b):
    assert integers.by_constant(name, element, b) is None


def test_a_division_truncates_and_a_remainder_has_the_dividends_sign():
    a, b = np.array([-7, 7], np.int32), np.array([2], np.int32)
    divide, remainder = (integers.by_constant(n, "i32", b) for n in ("arith.divsi", "arith.remsi"))
    assert divide is not None
    assert remainder is not None
    assert divide(a).tolist() == [-3, 3]
    assert remainder(a).tolist() == [-1, 1]
