"""Float buffers of a case: ordinary numbers of drawn magnitudes, some special ones, poison around and between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from kvproof.models.contract import STORAGE_DTYPES, TensorValue
from kvproof.models.floats import to_bf16
from kvproof.properties.strategies.cases import poison
from kvproof.properties.strategies.draws import mostly, rarely, seldom_low

GUARD_ROWS = 2
"""Rows of the storage before and after the view."""

BF16_SPECIAL = {
    "zero": 0x0000,
    "negative zero": 0x8000,
    "one": 0x3F80,
    "minus one": 0xBF80,
    "448": 0x43E0,
    "past 448": 0x43E1,
    "240": 0x4370,
    "past 240": 0x4371,
    "tie to even": 0x3F88,  # 1.0625, halfway between two e4m3 values
    "tie to odd": 0x3F98,
    "least bf16": 0x0001,
    "least normal": 0x0080,
    "largest": 0x7F7F,
    "infinity": 0x7F80,
    "minus infinity": 0xFF80,
    "NaN": 0x7FC0,
    "negative NaN": 0xFFC1,
}
"""bf16 bit patterns that a row of ordinary numbers would not meet."""

KINDS = ["ordinary", "edge", "zeros", "any bits"]
"""Kinds of a row."""


def numbers(seed: int, count: int) -> npt.NDArray[np.float64]:
    """``count`` numbers in [-1, 1), the same everywhere for the same seed, none of them 0."""
    words = np.random.PCG64(seed).random_raw(count) >> np.uint64(11)
    return (words.astype(np.float64) + 0.5) * 2.0**-52 - 1.0


@st.composite
def guarded(
    draw: st.DrawFn, dtype: str, shape: Sequence[int], seed: int, *, free_stride: bool = True
) -> TensorValue:
    """A view of that shape in a poisoned storage, with rows before and after it.

    Args:
        dtype: element type.
        shape: extents; dimensions after the first are contiguous.
        seed: poison seed.
        free_stride: rows may lie further apart than they are long, and start anywhere.
    """
    width = int(np.prod(shape[1:], dtype=np.int64)) if len(shape) > 1 else 1
    stride = width + (draw(seldom_low(0, 3)) * 16 if free_stride and draw(mostly()) else 0)
    shift = draw(seldom_low(0, 3)) if free_stride and draw(rarely()) else 0
    storage = poison(seed, dtype, (shape[0] + 2 * GUARD_ROWS) * stride + shift)
    steps = [1]
    for extent in shape[:0:-1]:
        steps.append(steps[-1] * extent)
    strides = (stride, *steps[-2::-1]) if len(shape) > 1 else (1,)
    return TensorValue(dtype, storage, tuple(shape), strides, GUARD_ROWS * stride + shift)


def filled(value: TensorValue, cells: npt.NDArray[Any]) -> TensorValue:
    """The same view of a copy of the storage, with these cells in it."""
    copy = value.copy()
    copy.array[...] = cells.astype(STORAGE_DTYPES[value.dtype])
    return copy


@st.composite
def bf16_rows(draw: st.DrawFn, rows: int, columns: int, seed: int, *, special: bool) -> npt.NDArray[np.uint16]:
    """bf16 bit patterns [rows, columns]: each row of one magnitude, all zeros, or any bits; some special elements.

    Args:
        special: whether elements may be special, and rows any bits.
    """
    found = np.zeros((rows, columns), np.uint16)
    ordinary = numbers(seed, rows * columns).reshape(rows, columns)
    for row in range(rows):
        kind = draw(st.sampled_from(KINDS if special else KINDS[:1]))
        if kind in {"ordinary", "edge"}:
            scale = 2.0 ** draw(st.integers(-12, 12) if special else seldom_low(-2, 2))
            found[row] = to_bf16(ordinary[row] * scale)
            if kind == "edge":
                # On the largest value of one of the two e4m3 variants, times a power of two.
                top = draw(st.sampled_from([448.0, 240.0])) * scale
                found[row, draw(st.integers(0, columns - 1))] = to_bf16(top)
        if kind == "any bits":
            found[row] = poison(seed + row, "bf16", columns)
    if special and rows:
        places = st.tuples(
            st.integers(0, rows - 1), st.integers(0, columns - 1), st.sampled_from(sorted(BF16_SPECIAL.values()))
        )
        for row, column, bits in draw(st.lists(places, max_size=6)):
            found[row, column] = bits
    return found
