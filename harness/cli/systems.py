"""The systems that a command is about: the row space, the cache schema, the scratch plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from kvproof.harness.cli.errors import UsageError
from kvproof.harness.cli.subjects import LaunchOptions, load_subject
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.properties.statement import Statement, all_statements

SYSTEMS: Mapping[str, tuple[str, ...]] = {
    "row-space": ("row-space", "pool"),
    "schema": ("schema",),
    "scratch": ("scratch",),
}
"""What the command line calls a system, and the kinds of system that statements name."""

EVERY_RANK = "every rank"
"""Subject of a run that draws from every tensor-parallel rank's share of every model family."""


def parse_systems(wanted: Sequence[str] | None, *, configs_named: bool = False) -> tuple[str, ...]:
    """The systems of ``--system``; by default all, or those that a named configuration has.

    Raises:
        UsageError: there is no such system, or one is given twice.
    """
    if not wanted:
        return tuple(SYSTEMS)[: 2 if configs_named else None]
    for name in wanted:
        if name not in SYSTEMS:
            raise UsageError(f"--system is {name!r}; allowed: {', '.join(SYSTEMS)}")
        if wanted.count(name) > 1:
            raise UsageError(f"--system names {name} more than once")
    return tuple(wanted)


def statements_of(system: str) -> list[Statement]:
    """The statements about a system, which are checked for each of its subjects."""
    return [statement for kind in SYSTEMS[system] for statement in all_statements(kind).values()]


def subject_names(system: str, configs: Sequence[ModelConfig]) -> list[str]:
    """Names of a system's subjects: configurations, or ranks of the model families."""
    from kvproof.models.scratch import scratch_systems

    return list(scratch_systems()) if system == "scratch" else [config.name for config in configs]


def proof_subjects(systems: Sequence[str], configs: Sequence[ModelConfig]) -> list[Any]:
    """What the statements of some systems are proved of."""
    from kvproof.harness.prove.subject import config_subject
    from kvproof.harness.prove.systems import schema_subject, system_subjects

    subjects: list[Any] = []
    for system in systems:
        if system == "scratch":
            subjects += system_subjects("scratch")
        elif system == "schema":
            subjects += [schema_subject(config) for config in configs]
        else:
            subjects += [config_subject(config, kind) for config in configs for kind in SYSTEMS[system]]
    return subjects


def system_limits(system: str, name: str, launch: LaunchOptions) -> Callable[[Any], Iterator[Any]]:
    """The search for a system's limits: of a configuration, or of a rank's share of a model family.

    Raises:
        UsageError: an unknown system or name.
        LayoutError: a configuration that is no layout.
    """
    from kvproof.harness.prove.limits import config_limits
    from kvproof.harness.prove.system_limits import schema_limits, scratch_limits
    from kvproof.models.scratch import scratch_systems

    (wanted,) = parse_systems([system])
    if wanted == "scratch":
        shares = scratch_systems()
        if name not in shares:
            raise UsageError(f"NAME is {name!r}; for --system scratch allowed: {', '.join(shares)}")
        return partial(scratch_limits, shares[name])
    model = load_subject(name, launch)
    return partial(schema_limits if wanted == "schema" else config_limits, model)
