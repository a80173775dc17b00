"""Concrete systems that statements speak of, drawn for one configuration or for any, and their JSON form."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hypothesis import strategies as st

from kvproof.models.deepseek_v4 import ModelConfig, real_configs
from kvproof.models.schema import SchemaSystem
from kvproof.models.scratch.dims import Dims, dims, scratch_systems
from kvproof.properties.layouts.pools import Pool
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


def _schemas(subject: ModelConfig | None) -> st.SearchStrategy[SchemaSystem]:
    return st.sampled_from([subject] if subject else real_configs()).map(SchemaSystem)


def _schema_from_json(data: Mapping[str, Any]) -> SchemaSystem:
    return SchemaSystem(ModelConfig(**{**data, "trunk_ratios": tuple(data["trunk_ratios"])}))


def _shares(_subject: ModelConfig | None) -> st.SearchStrategy[Dims]:
    # A rank's share depends on the model's family, not on how its cache is configured.
    return st.sampled_from(list(scratch_systems().values()))


register_system(SystemKind("schema", _schemas, lambda s: dataclasses.asdict(s.model), _schema_from_json))
register_system(
    SystemKind(
        "scratch",
        _shares,
        lambda share: {"family": share.family.name, "tp": share.tp, "topk": share.topk},
        lambda data: dims(data["family"], data["tp"], data["topk"]),
    )
)
register_system(SystemKind("row-space", _row_spaces, geometry_json, geometry_from_json))


def _pools(subject: ModelConfig | None) -> st.SearchStrategy[Any]:
    configs = real_configs() if subject is None else [subject]

    def of(config: ModelConfig) -> st.SearchStrategy[Pool]:
        return real_geometries(config).map(lambda space: Pool(config, space, config.state_layout()))

    return st.sampled_from(configs).flatmap(of)


def _pool_json(pool: Pool) -> Mapping[str, Any]:
    return {"config": asdict(pool.config), "space": geometry_json(pool.space)}


def _pool_from_json(data: Mapping[str, Any]) -> Pool:
    config = ModelConfig(**{**data["config"], "trunk_ratios": tuple(data["config"]["trunk_ratios"])})
    return Pool(config, geometry_from_json(data["space"]), config.state_layout())


register_system(SystemKind("pool", _pools, _pool_json, _pool_from_json))
