"""Float formats: exact conversion between each of them and float32 or float64.

bf16 is rounded by integer arithmetic on the bits of float32 (to nearest, ties to even). 8-bit formats go
through ml_dtypes, with the overflow rule of the GPU's convert instruction put on top: it saturates.
"""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np

from kvproof.harness.ir.execute.values import Array, UnsupportedOperation

_EIGHT_BITS = {
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
}
BF16_NAN = np.uint16(0x7FFF)
"""What NVIDIA's conversion to bf16 makes of every NaN."""


@cache
def _decoded(element: str) -> Array:
    return np.arange(256, dtype=np.uint8).view(_EIGHT_BITS[element]).astype(np.float32)


def to_single(value: Array, element: str) -> Array:
    """Values of a format of at most 32 bits as float32, exactly; float64 stays as it is."""
    if element in {"f32", "f64"}:
        return value
    if element == "bf16":
        return (value.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if element == "f16":
        return value.astype(np.float32)
    if element in _EIGHT_BITS:
        return _decoded(element)[value]
    raise UnsupportedOperation(f"float type {element}")


def from_single(value: Array, element: str, *, toward_zero: bool = False) -> Array:
    """float32 (or float64) rounded to a format: to nearest even, or towards zero."""
    if element == "f64":
        return value.astype(np.float64)
    if element == "f32":
        return value.astype(np.float32)
    if element == "bf16":
        return _to_bf16(value.astype(np.float32, copy=False), toward_zero=toward_zero)
    if element == "f16":
        return _toward_zero_half(value) if toward_zero else value.astype(np.float16)
    if element in _EIGHT_BITS:
        return _to_eight_bits(value, element, toward_zero=toward_zero)
    raise UnsupportedOperation(f"float type {element}")


def from_double(value: Array, element: str) -> Array:
    """float64 rounded once to a format (of a constant, whose text is exact in its own format)."""
    if element in {"f64", "f32", "f16"}:
        return value.astype({"f64": np.float64, "f32": np.float32, "f16": np.float16}[element])
    return from_single(value.astype(np.float32), element)


def _to_bf16(value: Array, *, toward_zero: bool) -> Array:
    bits = np.ascontiguousarray(value).view(np.uint32)
    if toward_zero:
        rounded = (bits >> np.uint32(16)).astype(np.uint16)
    else:
        rounded = (
            (bits + (((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF))) >> np.uint32(16)
        ).astype(np.uint16)
    bad = np.isnan(value)
    if bad.any():
        rounded[bad] = BF16_NAN
    return rounded


def _toward_zero_half(value: Array) -> Array:
    nearest = value.astype(np.float16)
    over = np.abs(nearest.astype(np.float32)) > np.abs(value)
    return np.where(over, np.nextafter(nearest, np.float16(0)), nearest)


def _to_eight_bits(value: Array, element: str, *, toward_zero: bool) -> Array:
    kind = _EIGHT_BITS[element]
    largest = np.float32(ml_dtypes.finfo(kind).max)
    clipped = np.clip(value.astype(np.float32, copy=False), -largest, largest)
    coded = clipped.astype(kind)
    if toward_zero:
        over = np.abs(coded.astype(np.float32)) > np.abs(clipped)
        # One step down in magnitude is one less in the bit pattern.
        return np.where(over, coded.view(np.uint8) - np.uint8(1), coded.view(np.uint8)).astype(np.uint8)
    return coded.view(np.uint8)
