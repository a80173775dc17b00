"""The executor's numbers against Python's integers and exact float formats."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvproof.harness.ir.execute import floats, formats, integers

WIDTHS = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


def _wrap(value: int, width: int) -> int:
    return (value + (1 << (width - 1))) % (1 << width) - (1 << (width - 1))


def _trunc_div(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return -quotient if (a < 0) != (b < 0) else quotient


def _u(value: int, width: int) -> int:
    return value % (1 << width)


EXPECTED = {
    "arith.addi": lambda a, b, _w: a + b,
    "arith.subi": lambda a, b, _w: a - b,
    "arith.muli": lambda a, b, _w: a * b,
    "arith.divsi": lambda a, b, _w: _trunc_div(a, b) if b else None,
    "arith.remsi": lambda a, b, _w: a - b * _trunc_div(a, b) if b else None,
    "arith.divui": lambda a, b, w: _u(a, w) // _u(b, w) if b else None,
    "arith.remui": lambda a, b, w: _u(a, w) % _u(b, w) if b else None,
    "arith.floordivsi": lambda a, b, _w: a // b if b else None,
    "arith.ceildivsi": lambda a, b, _w: -(-a // b) if b else None,
    "arith.andi": lambda a, b, _w: a & b,
    "arith.ori": lambda a, b, _w: a | b,
    "arith.xori": lambda a, b, _w: a ^ b,
    "arith.shli": lambda a, b, w: a << _u(b, w) if _u(b, w) < w else 0,
    "arith.shrsi": lambda a, b, w: a >> min(_u(b, w), w - 1),
    "arith.shrui": lambda a, b, w: _u(a, w) >> _u(b, w) if _u(b, w) < w else 0,
    "arith.minsi": lambda a, b, _w: min(a, b),
    "arith.maxsi": lambda a, b, _w: max(a, b),
    "arith.minui": lambda a, b, w: min(_u(a, w), _u(b, w)),
    "arith.maxui": lambda a, b, w: max(_u(a, w), _u(b, w)),
    "tt.mulhiui": lambda a, b, w: (_u(a, w) * _u(b, w)) >> w,
}


def _edge(width: int):
    top = 1 << (width - 1)
    edges = [0, 1, -1, 2, -2, top - 1, -top, 1 - top, width, width - 1, 7]
    return st.one_of(st.sampled_from(edges), st.integers(-top, top - 1))


def test_every_integer_operation_has_an_expectation():
    assert set(EXPECTED) == set(integers.BINARY)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", sorted(EXPECTED))
@given(data=st.data())
def test_integer_operations_are_exact(name, width, data):
    a, b = data.draw(_edge(width)), data.draw(_edge(width))
    expected = EXPECTED[name](a, b, width)
    with np.errstate(all="ignore"):
        got = integers.BINARY[name](np.array([a], WIDTHS[width]), np.array([b], WIDTHS[width]))
    assert got.dtype == WIDTHS[width]
    # Division by zero is undefined; it must only not stop the other lanes.
    if expected is not None:
        assert int(got[0]) == _wrap(expected, width)


PREDICATES = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
    "slt": lambda a, b: a < b, "sle": lambda a, b: a <= b, "sgt": lambda a, b: a > b, "sge": lambda a, b: a >= b,
}  # fmt: skip


@pytest.mark.parametrize("width", WIDTHS)
@given(data=st.data())
def test_comparisons_and_conversions(width, data):
    a, b = data.draw(_edge(width)), data.draw(_edge(width))
    x, y = np.array([a], WIDTHS[width]), np.array([b], WIDTHS[width])
    for name, holds in PREDICATES.items():
        assert bool(integers.compare(name, f"i{width}")(x, y)[0]) == holds(a, b)
        if name[0] == "s":
            unsigned = integers.compare("u" + name[1:], f"i{width}")(x, y)
            assert bool(unsigned[0]) == holds(_u(a, width), _u(b, width))
    assert int(integers.extend(x, "i64", signed=True)[0]) == a
    if width < 64:
        assert int(integers.extend(x, "i64", signed=False)[0]) == _u(a, width)
    assert int(integers.truncate(x, "i8")[0]) == _wrap(a, 8)
    assert bool(integers.truncate(x, "i1")[0]) == bool(a & 1)


def test_a_set_bit_is_minus_one_when_signed():
    bits = np.array([True, False])
    assert integers.extend(bits, "i32", signed=True).tolist() == [-1, 0]
    assert integers.extend(bits, "i32", signed=False).tolist() == [1, 0]
    assert integers.compare("slt", "i1")(bits, ~bits).tolist() == [True, False]
    assert integers.compare("ult", "i1")(bits, ~bits).tolist() == [False, True]


# ---- float formats ------------------------------------------------------------

KINDS = {
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
}


def test_every_bf16_pattern_survives_the_way_to_single_and_back():
    bits = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    single = formats.to_single(bits, "bf16")
    number = ~np.isnan(single)
    assert (single[number] == bits[number].view(ml_dtypes.bfloat16).astype(np.float32)).all()
    assert (formats.from_single(single, "bf16")[number] == bits[number]).all()
    assert (formats.from_single(single, "bf16")[~number] == 0x7FFF).all()


@given(st.integers(0, 2**32 - 1))
def test_bf16_rounds_to_nearest_even(bits):
    value = np.array([bits], np.uint32).view(np.float32)
    if not np.isnan(value[0]):
        expected = value.astype(ml_dtypes.bfloat16).view(np.uint16)
        assert formats.from_single(value, "bf16")[0] == expected[0]


@pytest.mark.parametrize("element", KINDS)
def test_every_eight_bit_pattern_survives(element):
    bits = np.arange(256, dtype=np.uint8)
    single = formats.to_single(bits, element)
    number = np.isfinite(single)
    assert (formats.from_single(single, element)[number] == bits[number]).all()


@pytest.mark.parametrize("element", KINDS)
@given(value=st.floats(width=32, allow_nan=False))
def test_eight_bit_formats_round_to_nearest_and_saturate(element, value):
    largest = float(ml_dtypes.finfo(KINDS[element]).max)
    got = float(formats.to_single(formats.from_single(np.array([value], np.float32), element), element)[0])
    if abs(value) >= largest:
        assert got == math.copysign(largest, value)
    else:
        assert got == float(np.array([value], np.float32).astype(KINDS[element])[0])


@pytest.mark.parametrize("element", ["bf16", "f16", *KINDS])
@given(value=st.floats(-400, 400, width=32))
def test_rounding_towards_zero_never_grows(element, value):
    single = np.array([value], np.float32)
    cut = float(formats.to_single(formats.from_single(single, element, toward_zero=True), element)[0])
    near = float(formats.to_single(formats.from_single(single, element), element)[0])
    assert abs(cut) <= min(abs(value), 448)
    assert abs(cut) <= abs(near) or cut == near


@given(st.integers(-(2**63), 2**63 - 1))
def test_an_index_through_single_precision_rounds(number):
    back = floats.to_int(floats.from_int(np.array([number]), "f32"), "f32", "i64", signed=True)
    exact = int(np.float32(number))
    assert int(back[0]) == min(exact, 2**63 - 1)
    if abs(number) <= 2**24:
        assert int(back[0]) == number


@pytest.mark.parametrize(
    ("value", "expected"),
    [(2.9, 2), (-2.9, -2), (3e9, 2**31 - 1), (-3e9, -(2**31)), (math.nan, 0), (math.inf, 2**31 - 1)],
)
def test_floats_to_integers_truncate_and_saturate(value, expected):
    assert int(floats.to_int(np.array([value], np.float32), "f32", "i32", signed=True)[0]) == expected


def test_comparisons_with_nan():
    nan, one = np.array([np.nan], np.float32), np.array([1.0], np.float32)
    for name in ("oeq", "olt", "oge", "one", "ord"):
        assert not floats.compare(name, "f32")(nan, one)[0]
    for name in ("ueq", "ult", "uge", "une", "uno"):
        assert floats.compare(name, "f32")(nan, one)[0]
