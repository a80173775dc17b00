"""Float operations. Narrow formats compute in float32 and round once, which for + - * / is exact rounding.

Transcendental functions compute in float64 and round to float32, so they are closer to the true value than
a GPU's approximations; a comparison allows for those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from kvproof.harness.ir.execute.formats import from_single, to_single
from kvproof.harness.ir.execute.values import Array, UnsupportedOperation, carrier

Function = Callable[..., Array]


def _min_number(a: Array, b: Array) -> Array:
    return np.fmin(a, b)


def _max_number(a: Array, b: Array) -> Array:
    return np.fmax(a, b)


ARITHMETIC: Mapping[str, Function] = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "tt.precise_divf": np.divide,
    "arith.remf": np.fmod,
    "arith.negf": np.negative,
    "arith.minnumf": _min_number,
    "arith.maxnumf": _max_number,
    "arith.minimumf": np.minimum,
    "arith.maximumf": np.maximum,
    "math.absf": np.abs,
    "math.floor": np.floor,
    "math.ceil": np.ceil,
    "math.trunc": np.trunc,
    "math.roundeven": np.rint,
    "math.sqrt": np.sqrt,
    "tt.precise_sqrt": np.sqrt,
}


def _wide(function: Function) -> Function:
    def compute(*operands: Array) -> Array:
        return function(*(o.astype(np.float64) for o in operands)).astype(operands[0].dtype)

    return compute


def _erf(value: Array) -> Array:
    from math import erf  # noqa: PLC0415  (rarely used)

    return np.vectorize(erf, otypes=[np.float64])(value)


TRANSCENDENTAL: Mapping[str, Function] = {
    name: _wide(function)
    for name, function in {
        "math.exp": np.exp,
        "math.exp2": np.exp2,
        "math.log": np.log,
        "math.log2": np.log2,
        "math.sin": np.sin,
        "math.cos": np.cos,
        "math.tanh": np.tanh,
        "math.erf": _erf,
        "math.rsqrt": lambda x: 1.0 / np.sqrt(x),
        "math.fma": lambda a, b, c: a * b + c,
    }.items()
}

EXTERNAL: Mapping[str, str] = {
    "__nv_exp2f": "math.exp2",
    "__nv_fast_expf": "math.exp",
    "__nv_expf": "math.exp",
    "__nv_logf": "math.log",
    "__nv_log2f": "math.log2",
    "__nv_rsqrtf": "math.rsqrt",
    "__nv_tanhf": "math.tanh",
    "__nv_floorf": "math.floor",
    "__nv_rintf": "math.roundeven",
    "__ocml_exp2_f32": "math.exp2",
    "__ocml_exp_f32": "math.exp",
    "__ocml_log_f32": "math.log",
    "__ocml_log2_f32": "math.log2",
    "__ocml_rsqrt_f32": "math.rsqrt",
    "__ocml_tanh_f32": "math.tanh",
    "__ocml_floor_f32": "math.floor",
    "__ocml_rint_f32": "math.roundeven",
}
"""Device library functions of both vendors by the operation that they are."""


def function(name: str, element: str) -> Function:
    """A float operation on values of one format."""
    compute = ARITHMETIC.get(name) or TRANSCENDENTAL.get(name)
    if compute is None:
        raise UnsupportedOperation(name)
    if element in {"f32", "f64"}:
        return compute

    def narrow(*operands: Array) -> Array:
        return from_single(compute(*(to_single(o, element) for o in operands)), element)

    return narrow


_ORDERED: Mapping[str, Function] = {
    "oeq": np.equal,
    "one": np.not_equal,
    "olt": np.less,
    "ole": np.less_equal,
    "ogt": np.greater,
    "oge": np.greater_equal,
}


def compare(predicate: str, element: str) -> Function:
    """Float comparison of a predicate ("olt"; "ult" holds for NaN as well)."""

    def compute(a: Array, b: Array) -> Array:
        a, b = to_single(a, element), to_single(b, element)
        nan = np.isnan(a) | np.isnan(b)
        if predicate == "uno":
            return nan
        if predicate == "ord":
            return ~nan
        relation = _ORDERED["o" + predicate[1:]](a, b)
        return relation & ~nan if predicate[0] == "o" else relation | nan

    return compute


def from_int(value: Array, element: str) -> Array:
    """An integer rounded once to a float format; i1 must have been extended before."""
    if element in {"f32", "f64"}:
        return value.astype(carrier(element))
    # float64 holds every 32-bit integer exactly; of 64-bit ones only formats this narrow are left.
    return from_single(value.astype(np.float32), element)


def to_int(value: Array, from_element: str, element: str, *, signed: bool) -> Array:
    """A float truncated towards zero; what does not fit saturates and NaN is 0, as on the device."""
    dtype = carrier(element)
    wide = np.trunc(to_single(value, from_element).astype(np.float64))
    bits = np.dtype(dtype).itemsize * 8
    low, high = (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1)) if signed else (0.0, 2.0**bits)
    target = dtype if signed else np.dtype(f"u{bits // 8}").type
    inside = (wide >= low) & (wide < high)
    result = np.where(inside, wide, 0.0).astype(target)
    info = np.iinfo(target)
    result = np.where(wide >= high, target(info.max), np.where(wide < low, target(info.min), result))
    return result.astype(target).view(dtype)
