"""Guard elements around every storage, for devices that do not check addresses themselves."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from kvproof.harness.devices.base import AccessError
from kvproof.models.contract import STORAGE_DTYPES, TensorValue
from kvproof.properties.strategies.cases import poison

GUARD_BYTES = 4096
"""On each side; a multiple of every alignment that a launcher may look at."""
SEED = 77


def guarded(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same arguments, each storage between poison. Tensors that share a storage keep sharing it."""
    wrapped: dict[int, Any] = {}
    found: dict[str, Any] = {}
    for name, value in values.items():
        if not isinstance(value, TensorValue):
            found[name] = value
            continue
        key = id(value.storage)
        elements = GUARD_BYTES // value.storage.itemsize
        if key not in wrapped:
            guard = _guard(value.dtype)
            wrapped[key] = np.concatenate([guard, value.storage, guard])
        found[name] = TensorValue(value.dtype, wrapped[key], value.shape, value.strides, value.offset + elements)
    return found


def unguarded(
    values: Mapping[str, Any], inside: Mapping[str, Any], results: Mapping[str, TensorValue]
) -> dict[str, TensorValue]:
    """The results without their guards.

    Raises:
        AccessError: a guard was written.
    """
    found: dict[str, TensorValue] = {}
    for name, result in results.items():
        value: TensorValue = values[name]
        elements = inside[name].offset - value.offset
        bits = f"u{value.storage.itemsize}"
        guard, held = _guard(value.dtype).view(bits), result.storage.view(bits)
        sides = held[:elements] != guard, held[elements + value.storage.size :] != guard
        if sides[0].any() or sides[1].any():
            before, behind = (np.flatnonzero(side) for side in sides)
            element = int(before[0]) - elements if before.size else int(behind[0]) + value.storage.size
            count = before.size + behind.size
            detail = f"element {element} of {name}'s storage, outside it, was written ({count} such elements)"
            raise AccessError("out of bounds", name, element, (), detail)
        middle = result.storage[elements : elements + value.storage.size]
        found[name] = TensorValue(value.dtype, middle, value.shape, value.strides, value.offset)
    return found


@functools.cache
def _guard(dtype: str) -> Any:
    """The elements of one side; who takes them copies them."""
    return poison(SEED, dtype, GUARD_BYTES // np.dtype(STORAGE_DTYPES[dtype]).itemsize)
