"""Which plan rows the state update writes, and what it writes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kvproof.models.contract import Approximate
from kvproof.models.floats import from_bf16
from kvproof.models.index import Condition, IndexValue, within


def planned(
    ragged: IndexValue,
    sequence: IndexValue,
    pos: IndexValue,
    rows: IndexValue,
    sequences: IndexValue,
) -> Condition:
    """Whether a plan row is one: padding has position -1, and stale rows may name anything."""
    return (pos >= 0) & within(ragged, 0, rows) & within(sequence, 0, sequences)


def pooled(ratio: int, overlap: bool) -> int:
    """Positions of one compressed entry: twice the ratio if entries overlap."""
    return 2 * ratio if overlap else ratio


def as_floats(values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Elements of a float tensor as fp32, which holds each of them exactly. bf16 is carried as uint16."""
    with np.errstate(invalid="ignore"):
        return np.asarray(from_bf16(values) if values.dtype == np.uint16 else values, np.float32)


def stored(kv: npt.NDArray[Any]) -> Approximate:
    """Rows of the kv state: the input, exact. The bound of 0 only lets a NaN have any bits."""
    with np.errstate(invalid="ignore"):  # a signalling NaN turns quiet
        exact = as_floats(kv).astype(np.float64)
    return Approximate(exact, np.zeros_like(exact))


def stored_score(score: npt.NDArray[Any], ape: npt.NDArray[Any]) -> Approximate:
    """Rows of the score state: one fp32 sum, rounded once."""
    with np.errstate(over="ignore", invalid="ignore"):
        exact = (as_floats(score) + as_floats(ape)).astype(np.float64)
    return Approximate(exact, np.zeros_like(exact))
