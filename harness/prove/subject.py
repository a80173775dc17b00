"""What a statement is proved of: a layout whose sizes are free."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.models.index import IndexValue
from kvproof.properties.layouts.pools import pool_of

SIZES = ("num_blocks", "num_slots", "plane_rows", "slot_positions")
"""Free sizes of a real configuration's pool. A plane above what the counts need leaves a gap; one with fewer
slots than ``slot_positions`` takes its numbering from a larger one."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A family of systems.

    Attributes:
        name: shown in reports.
        system: kind of system, as statements name it ("row-space").
        sizes: names of the free sizes, all not negative.
        build: makes the system from the sizes, which may be symbolic.
        describe: JSON values that make the subject again, for a finding.
        assumptions: what a PASS assumes beyond what the constructor accepts.
        statements: names of the statements that it is for; None is every one of its system.
        samples: values of some sizes at which cases are looked for first, where free ones make products.
    """

    name: str
    system: str
    sizes: tuple[str, ...]
    build: Callable[[Mapping[str, IndexValue]], Any]
    describe: Mapping[str, Any] = field(default_factory=dict[str, Any])
    assumptions: tuple[str, ...] = ()
    statements: tuple[str, ...] | None = None
    samples: tuple[Mapping[str, int], ...] = ()


def config_from_json(data: Mapping[str, Any]) -> ModelConfig:
    """The configuration that a finding holds.

    Raises:
        LayoutError, TypeError: data that describe none.
    """
    return ModelConfig(**{**data, "trunk_ratios": tuple(data["trunk_ratios"])})


CONFIG_SYSTEMS = ("row-space", "pool")
"""Kinds of system that a configuration has."""


def config_subject(config: ModelConfig, system: str = "row-space") -> Subject:
    """The row space or the pool of a configuration, at every capacity and numbering.

    Raises:
        ValueError: another kind of system.
    """
    if system not in CONFIG_SYSTEMS:
        raise ValueError(f"system is {system!r}; allowed: {', '.join(CONFIG_SYSTEMS)}")

    def build(sizes: Mapping[str, IndexValue]) -> Any:
        arguments = [sizes[name] for name in SIZES]
        return config.geometry(*arguments) if system == "row-space" else pool_of(config, *arguments)

    return Subject(config.name, system, SIZES, build, {"system": system, "config": asdict(config)})
