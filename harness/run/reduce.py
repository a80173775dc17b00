"""A last pass over a failing launch: its extents and numbers made smaller one by one, until none can be.

Shrinking what was drawn ends where no smaller draw fails, and how draws hang together is the strategy's affair:
two numbers that must change at once may both stay. This pass knows nothing of draws. It takes out places along the
contract's named extents, then lowers scalars, then the elements of index tensors, as long as the launch stays
within the contract and fails in the same way. What a finding ends with cannot be made smaller by one such
step; where two places would have to change at once, that may depend on the case that was met first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from kvproof.kernels.registry import Kernel
from kvproof.models.contract import TensorValue
from kvproof.properties.strategies.cases import Case

INDEX_TYPES = ("int32", "int64")
LARGE = 2**16
"""Where an element is above this, another of its tensor may be while an earlier number is lowered: such a case is
about a product of the two, or about one large number wherever it stands."""
SMALL = 16
"""Values up to this are tried one by one; beyond, failing is taken to be monotone."""
SECONDS = 30.0

T = TypeVar("T")
Place = tuple[str, int | None]
"""An argument, and the element of its storage if it is a tensor."""


def reduced(
    kernel: Kernel,
    case: Case,
    failing: Callable[[Case], T | None],
    *,
    seconds: float = SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[Case, T] | None:
    """The smallest case that is reached, and what ``failing`` says of it; None if the case itself does not fail.

    Args:
        kernel: whose launch it is.
        case: a failing case.
        failing: what is wrong with a case, if it fails in the way that counts.
        seconds: time for the pass; it may end before nothing more can be lowered.
        clock: for tests.
    """
    stop = clock() + seconds
    best = failing(case)
    if best is None:
        return None

    def taken(values: Mapping[str, Any], **others: Any) -> bool:
        nonlocal case, best
        if clock() >= stop:
            return False
        changed = replace(case, values=values, **others)
        found = failing(changed)
        if found is None:
            return False
        case, best = changed, found
        return True

    def better(values: Mapping[Place, int]) -> bool:
        return taken(_with(case.values, values))

    before: dict[Place, int] = {}
    while before != (now := dict(_numbers(kernel, case))) and clock() < stop:
        before = now
        if case.shaped_for:
            taken(case.values, shaped_for=0)
        while any(taken(values) for values in _without_a_place(kernel, case)):
            pass
        for values in _shifted(kernel, case):
            taken(values)
        for place in dict(_numbers(kernel, case)):
            _lower(place, lambda: dict(_numbers(kernel, case)), better)
    return case, best


def _without_a_place(kernel: Kernel, case: Case) -> Iterator[dict[str, Any]]:
    """Launches with one place less along a named extent, or along the first of all tensors but those of one.

    No extent becomes 0: a launch without any token or row explains less.
    """
    shapes = {tensor.name: tensor.shape for tensor in kernel.contract.tensors if case.values[tensor.name]}
    extents = {
        extent: case.values[name].shape[axis]
        for name, shape in shapes.items()
        for axis, extent in enumerate(shape)
        if isinstance(extent, str)
    }
    for extent, size in extents.items():
        for at in reversed(range(size if size > 1 else 0)):
            alone = {name: axis for name, shape in shapes.items() for axis, e in enumerate(shape) if e == extent}
            # A token is a place of several tensors whose lengths have names of their own.
            long = [
                name
                for name, shape in shapes.items()
                if isinstance(shape[0], str) and case.values[name].shape[0] > 1
            ]
            for axes in (alone, *({n: 0 for n in long if shapes[n][0] != kept} for kept in ("", *extents))):
                if axes and all(at < case.values[name].shape[axis] for name, axis in axes.items()):
                    yield {
                        name: _shorter(value, axes[name], at, moved=name not in case.poison)
                        if name in axes
                        else value
                        for name, value in case.values.items()
                    }


def _shifted(kernel: Kernel, case: Case) -> Iterator[dict[str, Any]]:
    """Launches with an index tensor lower by its smallest element: consecutive ones must stay so."""
    elements: dict[str, dict[Place, int]] = {}
    for place, number in _numbers(kernel, case):
        if place[1] is not None:
            elements.setdefault(place[0], {})[place] = number
    for numbers in elements.values():
        low = min(numbers.values())
        if low > 0:
            yield _with(case.values, {place: number - low for place, number in numbers.items()})


def _shorter(value: TensorValue, axis: int, at: int, *, moved: bool) -> TensorValue:
    """A tensor without one place along an axis, in the same storage; those behind it move up unless poison."""
    shape = tuple(n - (d == axis) for d, n in enumerate(value.shape))
    short = TensorValue(value.dtype, value.storage.copy(), shape, value.strides, value.offset)
    if moved:
        short.array[...] = np.delete(value.array, at, axis)
    return short


def _numbers(kernel: Kernel, case: Case) -> Iterator[tuple[Place, int]]:
    """Every number that may be lowered: scalars, then elements of index tensors that are not poison."""
    tensors = {tensor.name for tensor in kernel.contract.tensors}
    for name, value in case.values.items():
        if name not in tensors and type(value) is int:
            yield (name, None), value
    for name in (tensor.name for tensor in kernel.contract.tensors):
        value = case.values[name]
        if isinstance(value, TensorValue) and value.dtype in INDEX_TYPES and name not in case.poison:
            for element in np.unique(_elements(value)):
                yield (name, int(element)), int(value.storage[element])


def _elements(value: TensorValue) -> Any:
    """Places in the storage of a tensor's elements."""
    places = np.arange(value.storage.size)
    steps = [stride * places.itemsize for stride in value.strides]
    return np.lib.stride_tricks.as_strided(places[value.offset :], value.shape, steps).ravel()


def _with(values: Mapping[str, Any], changes: Mapping[Place, int]) -> dict[str, Any]:
    """A launch's arguments with some numbers changed."""
    changed = dict(values)
    for (name, element), number in changes.items():
        if element is None:
            changed[name] = number
        else:
            value = changed[name]
            storage = value.storage.copy()
            storage[element] = number
            changed[name] = replace(value, storage=storage)
    return changed


def _lower(
    place: Place, numbers: Callable[[], dict[Place, int]], better: Callable[[dict[Place, int]], bool]
) -> None:
    """Bring one number as near to 0 as it goes; elements that come later may grow in exchange."""
    value = numbers()[place]
    sign = -1 if value < 0 else 1
    size = abs(value)
    for candidate in range(min(size, SMALL + 1)):
        if better({place: sign * candidate}):
            return
        # An element goes to 0 in exchange or stays; a scalar is worth more tries.
        if candidate == 0 or place[1] is None:
            for other in _growing(place, numbers()):
                if better({place: sign * candidate, other: 2**31 - 1}):
                    return
    low, high = SMALL, size
    while high - low > 1:
        middle = (low + high) // 2
        if better({place: sign * middle}):
            high = middle
        else:
            low = middle


def _growing(place: Place, numbers: Mapping[Place, int]) -> list[Place]:
    """Elements of the tensors with large numbers, as far as they come after a place: so there is no way back.

    Those tensors come after all others.
    """
    large = {name for (name, element), number in numbers.items() if element is not None and number > LARGE}
    order = sorted(numbers, key=lambda other: other[0] in large and other[1] is not None)
    return [other for other in order[order.index(place) + 1 :] if other[0] in large and other[1] is not None]
