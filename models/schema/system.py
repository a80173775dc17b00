"""A model's cache schema as one subject: what statements, proofs and tables are about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from kvproof.models.deepseek_v4 import ModelConfig, real_configs
from kvproof.models.errors import LayoutError
from kvproof.models.row_space import UnifiedPoolGeometry
from kvproof.models.row_space.ratios import CSA_RATIO, HCA_RATIO
from kvproof.models.schema.layers import AttentionType, LayerCacheSchema, model_schemas


@dataclass(frozen=True)
class SchemaSystem:
    """The schema of a model.

    Attributes:
        model: the model as served.
    """

    model: ModelConfig

    @property
    def name(self) -> str:
        """Name in reports: the model's."""
        return self.model.name

    @cached_property
    def kinds(self) -> Mapping[str, LayerCacheSchema]:
        """The schema of the first layer of each kind that the model has, by "CSA", "HCA" or "SWA"."""
        found: dict[str, LayerCacheSchema] = {}
        for schema in model_schemas(self.model):
            found.setdefault(str(schema.attn_type), schema)
        return found

    @property
    def compressed(self) -> list[str]:
        """Kinds with compressed entries."""
        return [kind for kind in self.kinds if kind != AttentionType.SWA]

    def layers_of(self, kind: str) -> int:
        """Layers of a kind."""
        return sum(str(schema.attn_type) == kind for schema in model_schemas(self.model))

    def row_space_ratio(self, kind: str) -> int:
        """The row space's ratio for a compressed kind.

        Raises:
            LayoutError: a kind without compressed entries.
        """
        ratios = {AttentionType.CSA: CSA_RATIO, AttentionType.HCA: HCA_RATIO}
        if kind not in ratios:
            raise LayoutError(f"kind is {kind!r}; compressed kinds: {', '.join(self.compressed)}")
        return ratios[AttentionType(kind)]

    @cached_property
    def pool(self) -> UnifiedPoolGeometry:
        """The row space of the same model with one block and one slot: its rows a block, ring and row bytes."""
        return self.model.geometry(1, 1)


def schema_systems() -> Mapping[str, SchemaSystem]:
    """The schema of every real configuration, with either KV dtype."""
    return {config.name: SchemaSystem(config) for config in real_configs()}
