"""Narrowings that several projects share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kvproof.harness.targets.profile import Narrowing
from kvproof.models.contract import TensorValue, contiguous
from kvproof.properties.strategies.cases import Case, poison


def dense(*names: str) -> Narrowing:
    """Tensors that the function wants without gaps between their rows."""

    def takes(values: Mapping[str, Any]) -> bool:
        return all(_dense(values[name]) for name in names if values[name] is not None)

    return Narrowing(f"{' and '.join(names)} with gaps between rows (refused by an assertion)", takes)


def _dense(value: TensorValue) -> bool:
    step = 1
    for extent, stride in zip(reversed(value.shape), reversed(value.strides), strict=True):
        if extent > 1 and stride != step:
            return 0 in value.shape
        step *= extent
    return True


def rows(values: Mapping[str, tuple[str | None, int | None]]) -> Callable[[Case], Case]:
    """Fits a case: the named tensors get rows of another type and width, poisoned, without gaps between them.

    Rows before and behind the view stay, so that a stray write there is still seen.

    Args:
        values: (element type, columns) by tensor; None keeps what was drawn.
    """

    def fit(case: Case) -> Case:
        fitted, seeds = dict(case.values), dict(case.poison)
        for number, (name, (dtype, columns)) in enumerate(values.items()):
            value = fitted.get(name)
            if isinstance(value, TensorValue) and len(value.shape) == 2:
                seed = seeds.get(name, 1000 + number)
                fitted[name] = _widened(value, dtype or value.dtype, columns or value.shape[1], seed)
                seeds[name] = seed
        return replace(case, values=fitted, poison=seeds)

    return fit


def _widened(value: TensorValue, dtype: str, columns: int, seed: int) -> TensorValue:
    stride = max(value.strides[0], value.shape[1], 1)
    before = value.offset // stride
    behind = max(value.storage.size - value.offset, 0) // stride - value.shape[0]
    count = before + value.shape[0] + max(behind, 0)
    storage = poison(seed, dtype, count * columns)
    return TensorValue(dtype, storage, (value.shape[0], columns), (columns, 1), before * columns)


def adjacent(*names: str) -> Callable[[Case], Case]:
    """Fits a case: the rows of the named tensors, as they are, without gaps between them."""

    def fit(case: Case) -> Case:
        values = {name: contiguous(case.values[name].dtype, case.values[name].array) for name in names}
        return replace(case, values={**case.values, **values}, events=case.events - {"strided entries"})

    return fit


def buffers(slices: Mapping[str, tuple[str, ...]], ratio: int) -> Callable[[Case], Case]:
    """Fits a case: gives empty slices to a class that the pool lacks, for a function that takes every buffer.

    Args:
        slices: indptr by name -> its buffer of indices, and its buffer of one row a token, if there is one.
        ratio: the class; where the pool has layers of it, nothing is changed.
    """

    def fit(case: Case) -> Case:
        given = dict(case.values)
        if ratio in given["geometry"].ratios:
            return case
        for indptr, (indices, *others) in slices.items():
            if given.get(indptr) is None:
                given[indptr] = contiguous("int32", [0] * (int(given["T"]) + 1))
                given[indices] = contiguous("int32", [-7])
                given |= {name: contiguous("int32", [-7] * int(given["T"])) for name in others}
        return replace(case, values=given)

    return fit


def given(name: str) -> Narrowing:
    """An argument that the contract may leave out and the function needs."""
    return Narrowing(f"no {name} (a required argument)", lambda values: values[name] is not None)


def filled(*names: str) -> Narrowing:
    """Extents that the function wants above zero."""

    def takes(values: Mapping[str, Any]) -> bool:
        return all(
            0 not in value.shape if isinstance(value, TensorValue) else bool(value)
            for value in (values[name] for name in names)
        )

    return Narrowing(f"empty {' or '.join(names)} (refused by an assertion)", takes)


Bound = Callable[[Mapping[str, Any]], int]


def within(name: str, stop: Bound, low: int | Bound = 0) -> Narrowing:
    """Ids of a tensor that a caller keeps to ``low <= id < stop``."""

    def takes(values: Mapping[str, Any]) -> bool:
        ids, first = values[name].array, low if isinstance(low, int) else low(values)
        return bool(((ids >= first) & (ids < stop(values))).all())

    return Narrowing(f"{name} out of its range", takes)


def finite(name: str) -> Narrowing:
    """bf16 values without NaN and infinity."""
    return Narrowing(
        f"{name} with NaN or infinity", lambda values: bool(((values[name].array & 0x7F80) != 0x7F80).all())
    )


def finite_rows(name: str, indices: str) -> Narrowing:
    """Rows of bf16 values that are read: without NaN and infinity."""

    def takes(values: Mapping[str, Any]) -> bool:
        if values[name].dtype != "bf16":
            return True
        bits = values[name].array[values[indices].array]
        return bool(((bits & 0x7F80) != 0x7F80).all())

    return Narrowing(f"rows of {name} that are read, with NaN or infinity", takes)


def only(name: str, *allowed: Any) -> Narrowing:
    """A scalar, or a tensor's element type, of which the function takes some values."""

    def takes(values: Mapping[str, Any]) -> bool:
        value = values[name]
        return (value.dtype if isinstance(value, TensorValue) else value) in allowed

    return Narrowing(f"{name} other than {', '.join(map(str, allowed))}", takes)
