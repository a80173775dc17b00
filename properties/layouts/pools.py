"""A pool: the row space of a configuration together with the state that its slots carry."""

from __future__ import annotations

from dataclasses import dataclass

from kvproof.models.deepseek_v4 import ModelConfig, StateLayout
from kvproof.models.index import IndexValue
from kvproof.models.row_space import UnifiedPoolGeometry


@dataclass(frozen=True)
class Pool:
    """What statements about state speak of.

    Attributes:
        config: the configuration.
        space: its row space, which every plane of the pool has.
        state: the fields of a request's state and their places.
    """

    config: ModelConfig
    space: UnifiedPoolGeometry
    state: StateLayout


def pool_of(
    config: ModelConfig,
    num_blocks: IndexValue,
    num_slots: IndexValue,
    plane_rows: IndexValue | None = None,
    slot_positions: IndexValue | None = None,
) -> Pool:
    """The pool of a configuration at a capacity."""
    return Pool(config, config.geometry(num_blocks, num_slots, plane_rows, slot_positions), config.state_layout())
