"""Guard elements around every storage, for devices that do not check addresses themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kvproof.harness.devices.base import AccessError
from kvproof.models.contract import TensorValue
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
            guard = poison(SEED, value.dtype, elements)
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
        before = inside[name].storage.view(bits)
        changed = np.flatnonzero(result.storage.view(bits) != before)
        outside = changed[(changed < elements) | (changed >= elements + value.storage.size)]
        if outside.size:
            element = int(outside[0]) - elements
            detail = (
                f"element {element} of {name}'s storage, outside it, was written ({outside.size} such elements)"
            )
            raise AccessError("out of bounds", name, element, (), detail)
        middle = result.storage[elements : elements + value.storage.size]
        found[name] = TensorValue(value.dtype, middle, value.shape, value.strides, value.offset)
    return found
