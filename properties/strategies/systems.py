"""Concrete systems that statements speak of, drawn for one configuration or for any, and their JSON form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.properties.strategies.geometry import (
    geometries,
    geometry_from_json,
    geometry_json,
    real_geometries,
)


@dataclass(frozen=True)
class SystemKind:
    """One kind of system.

    Attributes:
        name: the name that statements give.
        draw: systems of one configuration, or of any if it is None.
        to_json: a system as JSON values.
        from_json: the system that ``to_json`` wrote.
    """

    name: str
    draw: Callable[[ModelConfig | None], st.SearchStrategy[Any]]
    to_json: Callable[[Any], Mapping[str, Any]]
    from_json: Callable[[Mapping[str, Any]], Any]


_kinds: dict[str, SystemKind] = {}


def register_system(kind: SystemKind) -> SystemKind:
    """Add a kind of system.

    Raises:
        ValueError: there is another one of that name.
    """
    if _kinds.get(kind.name, kind) != kind:
        raise ValueError(f"system {kind.name!r} is registered twice")
    _kinds[kind.name] = kind
    return kind


def system_kind(name: str) -> SystemKind:
    """The kind of system of that name.

    Raises:
        ValueError: there is none.
    """
    if name not in _kinds:
        raise ValueError(f"no strategy draws systems of kind {name!r}; known: {', '.join(sorted(_kinds))}")
    return _kinds[name]


def _row_spaces(subject: ModelConfig | None) -> st.SearchStrategy[Any]:
    return geometries() if subject is None else real_geometries(subject)


register_system(SystemKind("row-space", _row_spaces, geometry_json, geometry_from_json))
