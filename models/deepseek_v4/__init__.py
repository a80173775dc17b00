"""DeepSeek-V4's configurations and the state that a request carries in its slot."""

from kvproof.models.deepseek_v4.config import (
    CONFIGS,
    HEAD_DIM,
    PLANES,
    ModelConfig,
    config_from_hf,
    real_configs,
    with_kv,
)
from kvproof.models.deepseek_v4.state import PlacedField, Plane, StateField, StateLayout, place_fields

__all__ = [
    "CONFIGS",
    "HEAD_DIM",
    "PLANES",
    "ModelConfig",
    "PlacedField",
    "Plane",
    "StateField",
    "StateLayout",
    "config_from_hf",
    "place_fields",
    "real_configs",
    "with_kv",
]
