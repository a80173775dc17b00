"""Kernel cases as JSON values and back, so that a finding can be run again from its file alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from kvproof.models.contract import STORAGE_DTYPES, TensorValue
from kvproof.models.row_space import UnifiedPoolGeometry, WindowParams
from kvproof.properties.strategies.cases import Case, poison
from kvproof.properties.strategies.geometry import geometry_from_json, geometry_json


def case_json(case: Case) -> dict[str, Any]:
    """A case as JSON values. A poisoned storage is written as its seed, any other as its elements' bits.

    Raises:
        TypeError: an argument of a type that has no JSON form here.
    """
    shape = {"shaped_for": case.shaped_for} if case.shaped_for else {}
    return {
        "values": {name: value_json(name, value, case.poison.get(name)) for name, value in case.values.items()},
        "events": sorted(case.events),
        "layout": dict(case.layout),
        **shape,
    }


def case_from_json(data: Mapping[str, Any]) -> Case:
    """The case that :func:`case_json` wrote.

    Raises:
        ValueError: not such a case, naming what is wrong.
    """
    try:
        values = {name: value_from_json(name, value) for name, value in data["values"].items()}
        seeds = {
            name: value["poison"]
            for name, value in data["values"].items()
            if isinstance(value, dict) and "poison" in value
        }
        shape = int(data.get("shaped_for", 0))
        return Case(values, seeds, frozenset(data["events"]), dict(data["layout"]), shape)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a kernel case: {error!r}") from error


def value_json(name: str, value: Any, seed: int | None = None) -> Any:
    """One argument as JSON values; a tensor by the seed of its poison, if it has one, else by its bits.

    Raises:
        TypeError: a type that has no JSON form here.
    """
    if isinstance(value, TensorValue):
        described: dict[str, Any] = {
            "tensor": value.dtype,
            "shape": list(value.shape),
            "strides": list(value.strides),
            "offset": value.offset,
        }
        if seed is not None:
            return {**described, "poison": seed, "size": value.storage.size}
        return {**described, "bits": _bits(value.storage).tolist()}
    if isinstance(value, WindowParams):
        return {"type": "WindowParams", **dataclasses.asdict(value)}
    if isinstance(value, UnifiedPoolGeometry):
        return {"type": "UnifiedPoolGeometry", **geometry_json(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"argument {name!r} of type {type(value).__name__} has no JSON form")


def value_from_json(name: str, data: Any) -> Any:
    """The argument that :func:`value_json` wrote.

    Raises:
        ValueError: an unknown type.
    """
    if not isinstance(data, dict):
        return data
    if "tensor" in data:
        carrier = np.dtype(STORAGE_DTYPES[data["tensor"]])
        if "poison" in data:
            storage = poison(data["poison"], data["tensor"], data["size"])
        else:
            kind = carrier if carrier.kind in "iu" else np.dtype(f"u{carrier.itemsize}")
            storage = np.array(data["bits"], kind).view(carrier)
        return TensorValue(data["tensor"], storage, tuple(data["shape"]), tuple(data["strides"]), data["offset"])
    fields = {k: v for k, v in data.items() if k != "type"}
    if data.get("type") == "WindowParams":
        return WindowParams(**fields)
    if data.get("type") == "UnifiedPoolGeometry":
        return geometry_from_json(fields)
    raise ValueError(f"argument {name!r} has unknown type {data.get('type')!r}")


def _bits(storage: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Integers as they are, floats as the bits of their pattern."""
    return storage if storage.dtype.kind in "iu" else storage.view(f"u{storage.dtype.itemsize}")
