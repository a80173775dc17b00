"""What a change of the specification touched: layout facts, and the obligations that follow from it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from kvproof.harness.mutate.patched import patched
from kvproof.harness.prove.discharge import grouped, stages, text_hash
from kvproof.harness.prove.explore import explore
from kvproof.harness.prove.subject import CONFIG_SYSTEMS, config_subject
from kvproof.harness.symbolic import UnsupportedError
from kvproof.harness.targets.revisions import unpack
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.models.errors import LayoutError
from kvproof.properties.statement import Statement, all_statements

COPIED = ("models.row_space", "models.deepseek_v4", "models.index")
"""What is read of another revision; errors stay the present ones, since statements tell them apart by class."""

Loader = Callable[[str], ModuleType]


class RevisionError(ValueError):
    """A revision cannot be read, or has no specification to compare with."""


@dataclass(frozen=True)
class Changes:
    """What differs for one configuration.

    Attributes:
        subject: configuration name.
        facts: each changed layout fact as (name, before, after).
        obligations: each statement with changed obligations, and how many of them.
    """

    subject: str
    facts: tuple[tuple[str, str, str], ...]
    obligations: tuple[tuple[str, int], ...]


def changes_since(revision: str, repository: Path, configs: Sequence[ModelConfig]) -> Iterator[Changes]:
    """What changed between a revision's specification and the present one.

    Raises:
        RevisionError: git does not know the revision, or it has no models/.
    """
    with models_at(revision, repository) as module:
        old = {config.name: config for config in module("models.deepseek_v4").real_configs()}
        for config in configs:
            before = old.get(config.name)
            if before is None:
                yield Changes(config.name, (("configuration", "absent", "present"),), ())
                continue
            facts = tuple(_differences(layout_facts(before), layout_facts(config)))
            yield Changes(config.name, facts, tuple(_touched(before, config)))


def layout_facts(config: Any) -> dict[str, str]:
    """The facts of a configuration's layout, by name."""
    space, state = config.geometry(0, 0), config.state_layout()
    facts = {
        "ring positions": space.ring_slots,
        "block size": space.block_size,
        "envelope rows": space.envelope_rows,
        "entry rows": space.entry_rows,
        "arena rows": space.arena_rows,
        "slot rows": space.slot_rows,
        "slot alignment": space.slot_align_rows,
    }
    for rows in space.class_rows.values():
        for name in ("num_layers", "block_rows", "ring_stride", "envelope_offset", "entry_offset", "entry_rows"):
            facts[f"class {rows.ratio}: {name}"] = getattr(rows, name)
        params = space.window_params(rows.ratio)
        facts[f"class {rows.ratio}: ring_start"] = params.ring_start
        facts[f"class {rows.ratio}: run_rows"] = params.run_rows
    for item in state.placed:
        facts[f"state {item.field.name}"] = f"plane {item.plane}, offset {item.offset}, shape {item.field.shape}"
    return {name: str(value) for name, value in facts.items()}


def _differences(before: dict[str, str], after: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    for name in {**before, **after}:
        pair = before.get(name, "absent"), after.get(name, "absent")
        if pair[0] != pair[1]:
            yield (name, *pair)


def _touched(before: Any, after: Any) -> Iterator[tuple[str, int]]:
    for system in CONFIG_SYSTEMS:
        for statement in all_statements(system).values():
            old, new = _obligations(before, system, statement), _obligations(after, system, statement)
            changed = len(set(old) ^ set(new))
            if changed:
                yield statement.name, changed


def _obligations(config: Any, system: str, statement: Statement) -> list[tuple[str, ...]]:
    """Every obligation as (path, kind, name, hash of its least text); what cannot be run says so."""
    found: list[tuple[str, ...]] = []
    try:
        for path in explore(config_subject(config, system), statement, lambda _premises: True):
            for group in grouped(path.obligations):
                text = next(stages(group.query)).text
                found.append((path.label, group.kind, group.name, text_hash(text)))
    except (UnsupportedError, LayoutError, AttributeError, TypeError) as error:
        found.append(("", "", f"cannot be run: {error}", ""))
    return found


@contextmanager
def models_at(revision: str, repository: Path) -> Iterator[Loader]:
    """The specification of a revision, importable beside the present one.

    Raises:
        RevisionError: git does not know the revision, or it has no models/.
    """
    if revision.startswith("-"):
        raise RevisionError(f"revision is {revision!r}; allowed: a commit, tag or branch")
    with tempfile.TemporaryDirectory(prefix="kvproof-") as folder:
        try:
            unpack(repository, revision, ["models"], Path(folder))
        except LayoutError as error:
            raise RevisionError(f"revision {revision!r} has no models/ to compare with: {error}") from error
        try:
            with patched(COPIED, sources=Path(folder)) as module:
                yield module
        except FileNotFoundError as error:
            raise RevisionError(f"revision {revision!r} lacks {error.filename}") from error
