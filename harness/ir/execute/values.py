"""How values are held: numpy arrays with one leading dimension for programs.

A scalar of n programs is an array of shape (n,), a tensor of shape (n, *extents). Any dimension may be 1
instead of its extent when the value is the same along it: constants, ranges and splats stay small, and
numpy's broadcasting does the rest. Whoever needs the full extent calls :func:`full`.

bf16 and 8-bit floats are held as their bit patterns, so copying them is exact and fast.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kvproof.harness.ir.reader import Type, element_width

Array: TypeAlias = npt.NDArray[Any]

DTYPES: Mapping[str, type[np.generic]] = {
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "index": np.int64,
    "ptr": np.int64,
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": np.uint16,
    "f8E4M3FN": np.uint8,
    "f8E4M3FNUZ": np.uint8,
    "f8E5M2": np.uint8,
    "f8E5M2FNUZ": np.uint8,
}
"""numpy type that carries each element type."""

UNSIGNED: Mapping[type[np.generic], type[np.generic]] = {
    np.int8: np.uint8,
    np.int16: np.uint16,
    np.int32: np.uint32,
    np.int64: np.uint64,
    np.bool_: np.bool_,
}


class UnsupportedOperation(RuntimeError):  # noqa: N818  (a verdict, not a mistake of the caller)
    """An operation that the executor does not model; the message names it and its place."""


def carrier(element: str) -> type[np.generic]:
    """numpy type that carries an element type.

    Raises:
        UnsupportedOperation: none does.
    """
    found = DTYPES.get(element)
    if found is None:
        raise UnsupportedOperation(f"element type {element}")
    return found


def full(value: Array, type_: Type) -> Array:
    """The value with every extent of its tensor type, and the programs' dimension as it is."""
    want = (value.shape[0], *type_.shape)
    return value if value.shape == want else np.broadcast_to(value, want)


def every(truths: Array) -> bool:
    """Whether all are on: what ``all()`` says, without its detour through Python."""
    return np.count_nonzero(truths) == truths.size


def unsigned(value: Array) -> Array:
    """The same bits read as unsigned."""
    return value.view(UNSIGNED[value.dtype.type])


def lanes(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of a value that is the same for all programs and along each of its dimensions."""
    return (1,) * (1 + len(shape))


_HEX = re.compile(r"-?0x[0-9A-Fa-f]+")


def constant(text: str, type_: Type) -> Array:
    """The value of an ``arith.constant``: a scalar, a splat or a nested list.

    Raises:
        UnsupportedOperation: a form without a known meaning.
    """
    dtype = carrier(type_.element)
    text = text.strip()
    if text.startswith("["):
        items = re.findall(r"[-+\w.]+", text)
        flat = np.concatenate([_scalar(item, type_.element, dtype) for item in items])
        return flat.reshape((1, *type_.shape))
    if text.startswith('"'):
        data = np.frombuffer(bytes.fromhex(text[3:-1]), dtype=np.uint8)
        if dtype is np.bool_:
            return np.unpackbits(data, bitorder="little", count=int(np.prod(type_.shape))).astype(bool)[None]
        return data.view(dtype).reshape((1, *type_.shape))
    return _scalar(text, type_.element, dtype).reshape(lanes(type_.shape))


def _scalar(text: str, element: str, dtype: type[np.generic]) -> Array:
    if text in {"true", "false"}:
        return np.array([text == "true"])
    if _HEX.fullmatch(text) and not element.startswith("i"):
        # A float that decimals cannot write: its bits.
        bits = np.array([int(text, 16)], dtype=np.uint64)
        return bits.astype(f"u{element_width(element) // 8}").view(dtype)
    if element.startswith("i"):
        number = int(text, 0)
        if element == "i1":
            return np.array([bool(number & 1)])
        width = element_width(element)
        wrapped = (number + (1 << (width - 1))) % (1 << width) - (1 << (width - 1))
        return np.array([wrapped], dtype=dtype)
    try:
        number = float(text)
    except ValueError:
        raise UnsupportedOperation(f"constant {text!r} of type {element}") from None
    from kvproof.harness.ir.execute.formats import from_double  # noqa: PLC0415  (formats needs this module)

    return from_double(np.array([number]), element)
