"""Integer operations as the device computes them: wrapping, truncating, with shifts past the width defined."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from kvproof.harness.ir.execute.values import Array, carrier, every, unsigned

Binary = Callable[[Array, Array], Array]


def _bits(value: Array) -> int:
    return 1 if value.dtype == np.bool_ else value.dtype.itemsize * 8


def _add(a: Array, b: Array) -> Array:
    return np.logical_xor(a, b) if a.dtype == np.bool_ else a + b


def _sub(a: Array, b: Array) -> Array:
    return np.logical_xor(a, b) if a.dtype == np.bool_ else a - b


def _mul(a: Array, b: Array) -> Array:
    return np.logical_and(a, b) if a.dtype == np.bool_ else a * b


def _divisor(b: Array) -> Array:
    """The divisor with zeros replaced: the quotient there is undefined, and must not stop the other lanes."""
    return b if every(b) else np.where(b == 0, np.ones((), b.dtype), b)


def _rem_signed(a: Array, b: Array) -> Array:
    # fmod takes the sign of the dividend, as the device does.
    return np.fmod(a, _divisor(b))


def _div_signed(a: Array, b: Array) -> Array:
    b = _divisor(b)
    return (a - np.fmod(a, b)) // b


def _div_unsigned(a: Array, b: Array) -> Array:
    return (unsigned(a) // _divisor(unsigned(b))).view(a.dtype)


def _rem_unsigned(a: Array, b: Array) -> Array:
    return (unsigned(a) % _divisor(unsigned(b))).view(a.dtype)


def _floor_div(a: Array, b: Array) -> Array:
    return a // _divisor(b)


def _ceil_div(a: Array, b: Array) -> Array:
    b = _divisor(b)
    return a // b + (a % b != 0).astype(a.dtype)


def _shift_left(a: Array, b: Array) -> Array:
    amount = unsigned(b)
    over = amount >= _bits(a)
    return np.where(over, np.zeros((), a.dtype), np.left_shift(a, np.where(over, 0, b).astype(a.dtype)))


def _shift_right_signed(a: Array, b: Array) -> Array:
    return np.right_shift(a, np.minimum(unsigned(b), _bits(a) - 1).astype(a.dtype))


def _shift_right_unsigned(a: Array, b: Array) -> Array:
    amount = unsigned(b)
    over = amount >= _bits(a)
    shifted = np.right_shift(unsigned(a), np.where(over, 0, amount).astype(amount.dtype))
    return np.where(over, np.zeros((), shifted.dtype), shifted).view(a.dtype)


def _min_unsigned(a: Array, b: Array) -> Array:
    return np.minimum(unsigned(a), unsigned(b)).view(a.dtype)


def _max_unsigned(a: Array, b: Array) -> Array:
    return np.maximum(unsigned(a), unsigned(b)).view(a.dtype)


def _mul_high_unsigned(a: Array, b: Array) -> Array:
    wide = [
        [int(x), int(y)]
        for x, y in zip(*map(np.ravel, np.broadcast_arrays(unsigned(a), unsigned(b))), strict=True)
    ]
    width = _bits(a)
    high = np.array([(x * y) >> width for x, y in wide], dtype=unsigned(a).dtype)
    return high.reshape(np.broadcast_shapes(a.shape, b.shape)).view(a.dtype)


BINARY: Mapping[str, Binary] = {
    "arith.addi": _add,
    "arith.subi": _sub,
    "arith.muli": _mul,
    "arith.divsi": _div_signed,
    "arith.divui": _div_unsigned,
    "arith.remsi": _rem_signed,
    "arith.remui": _rem_unsigned,
    "arith.floordivsi": _floor_div,
    "arith.ceildivsi": _ceil_div,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.shli": _shift_left,
    "arith.shrsi": _shift_right_signed,
    "arith.shrui": _shift_right_unsigned,
    "arith.minsi": np.minimum,
    "arith.maxsi": np.maximum,
    "arith.minui": _min_unsigned,
    "arith.maxui": _max_unsigned,
    "tt.mulhiui": _mul_high_unsigned,
}

_SIGNED: Mapping[str, Binary] = {
    "slt": np.less,
    "sle": np.less_equal,
    "sgt": np.greater,
    "sge": np.greater_equal,
}
_UNSIGNED: Mapping[str, Binary] = {
    "ult": np.less,
    "ule": np.less_equal,
    "ugt": np.greater,
    "uge": np.greater_equal,
}


_PLAIN: Mapping[str, Binary] = {"arith.addi": np.add, "arith.subi": np.subtract, "arith.muli": np.multiply}


def binary(name: str, element: str) -> Binary:
    """A binary operation on values of an element type; numpy's own where nothing is to be put right."""
    return BINARY[name] if element == "i1" or name not in _PLAIN else _PLAIN[name]


def by_constant(name: str, element: str, b: Array) -> Callable[[Array], Array] | None:
    """The operation with a right operand that is known beforehand; None if nothing can be spared.

    Args:
        name: operation.
        element: type of both operands.
        b: the right operand.
    """
    if element == "i1":
        return None
    if name in {"arith.divsi", "arith.remsi"} and b.all():
        return (lambda a: np.fmod(a, b)) if name == "arith.remsi" else (lambda a: (a - np.fmod(a, b)) // b)
    if name in {"arith.shli", "arith.shrsi", "arith.shrui"} and (unsigned(b) < _bits(b)).all():
        if name == "arith.shrui":
            return lambda a: np.right_shift(unsigned(a), unsigned(b)).view(a.dtype)
        shift = np.left_shift if name == "arith.shli" else np.right_shift
        return lambda a: shift(a, b)
    return None


def compare(predicate: str, element: str) -> Binary:
    """Integer comparison of a predicate ("slt"). A signed i1 is 0 or -1."""
    if predicate == "eq":
        return np.equal
    if predicate == "ne":
        return np.not_equal
    if predicate in _UNSIGNED:
        relation = _UNSIGNED[predicate]
        return lambda a, b: relation(unsigned(a), unsigned(b))
    relation = _SIGNED[predicate]
    if element != "i1":
        return relation
    return lambda a, b: relation(-a.astype(np.int8), -b.astype(np.int8))


def extend(value: Array, element: str, *, signed: bool) -> Array:
    """The value in a wider type. A signed i1 that is set becomes -1."""
    wide = carrier(element)
    if value.dtype == np.bool_:
        return np.negative(value.astype(wide)) if signed and wide is not np.bool_ else value.astype(wide)
    return value.astype(wide) if signed else unsigned(value).astype(wide)


def extension(source: str, target: str, *, signed: bool) -> Callable[[Array], Array]:
    """:func:`extend` between two known types, which are looked at once."""
    wide, bits = carrier(target), "b" if source == "i1" else "s" if signed else "u"
    if bits == "s" and wide is not np.bool_:
        return lambda value: value.astype(wide)
    return lambda value: extend(value, target, signed=signed)


def truncate(value: Array, element: str) -> Array:
    """The low bits of the value."""
    return (value & 1).astype(np.bool_) if element == "i1" else value.astype(carrier(element))
