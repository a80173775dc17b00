"""Float results that are right within an error bound, and how a comparison treats them.

A bound is derived from element types and lengths and stated where it is computed; it is no tolerance to turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kvproof.models.contract.contract import Arguments, Contract, index_arrays
from kvproof.models.contract.tensors import TensorValue
from kvproof.models.errors import LayoutError
from kvproof.models.floats import from_bf16, to_bf16

Cells = npt.NDArray[Any]
Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Approximate:
    """What some cells may hold: values within ``error`` of ``exact``.

    Attributes:
        exact: what exact arithmetic gives, one entry a cell element. NaN where the result must be NaN.
        error: how far from it the result may be, of the same shape; infinite where nothing is promised.
        decode, encode: between cells, in the carrying numpy type, and their values; by default the element
            type's. Where decoded values are not one an element, cells are accepted or not as a whole. NaN from
            ``decode`` stands for cells that are malformed.
    """

    exact: Values
    error: Values
    decode: Callable[[Cells], Values] | None = None
    encode: Callable[[Values], Cells] | None = None


def settle(
    contract: Contract, a: Arguments, expected: Mapping[str, TensorValue], got: Mapping[str, TensorValue]
) -> None:
    """Put into ``expected`` what a launch wrote, where that is within its bound, and the exact value elsewhere.

    After it, expected and got may be compared bit by bit: they differ in a bounded cell exactly if that cell is
    out of its bound.

    Args:
        contract: whose writes state the bounds.
        a: the arguments.
        expected: output buffers before the writes with bounds; modified.
        got: every tensor after the launch.
    """
    for access in contract.writes:
        if access.bound is None or access.mode != "must" or got.get(access.buffer) is None:
            continue
        indices = index_arrays(access.over, a)
        live = np.broadcast_to(np.asarray(access.when(a, *indices), bool), indices[0].shape)
        chosen = tuple(column[live] for column in indices)
        if not chosen[0].size:
            continue
        cell = tuple(np.asarray(part, np.int64) for part in access.cell(a, *chosen))
        wanted: Approximate = access.bound(a, *chosen)
        buffer = expected[access.buffer]
        decode = wanted.decode or _DECODERS[_float_type(buffer.dtype)]
        encode = wanted.encode or _ENCODERS[_float_type(buffer.dtype)]
        held = got[access.buffer].array[cell]
        accepted = within_bound(decode(held), wanted)
        if accepted.shape != held.shape:
            whole = accepted.reshape(accepted.shape[0], -1).all(axis=1)
            accepted = whole.reshape(-1, *[1] * (held.ndim - 1))
        buffer.array[cell] = np.where(accepted, held, encode(wanted.exact))


def within_bound(values: Values, wanted: Approximate) -> npt.NDArray[np.bool_]:
    """Whether each value is within its bound. A NaN is right only where a NaN is wanted."""
    with np.errstate(invalid="ignore"):
        near = np.abs(values - wanted.exact) <= wanted.error
    same = (values == wanted.exact) | (np.isnan(values) & np.isnan(wanted.exact))
    return near | same | np.isposinf(wanted.error)


def _float_type(dtype: str) -> str:
    if dtype not in _DECODERS:
        raise LayoutError(f"a bound on {dtype} elements needs its own decode and encode")
    return dtype


def _wide(cells: Cells) -> Values:
    with np.errstate(invalid="ignore"):  # a signalling NaN turns quiet
        return cells.astype(np.float64)


def _narrow(carrier: type[np.floating[Any]]) -> Callable[[Values], Cells]:
    def encode(values: Values) -> Cells:
        with np.errstate(over="ignore"):
            return values.astype(carrier)

    return encode


_DECODERS: Mapping[str, Callable[[Cells], Values]] = {"bf16": from_bf16, "fp16": _wide, "fp32": _wide}
_ENCODERS: Mapping[str, Callable[[Values], Cells]] = {
    "bf16": to_bf16,
    "fp16": _narrow(np.float16),
    "fp32": _narrow(np.float32),
}
