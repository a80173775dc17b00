"""Faults planted in the layout's specification, and the systems that follow from a faulty one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from kvproof.harness.mutate.patched import Patch, patched
from kvproof.harness.prove.subject import Subject, config_subject

COPIED = ("models.row_space", "models.deepseek_v4")
"""What a faulty layout copies. Errors and index arithmetic stay the originals, unless a patch is for them."""


@dataclass(frozen=True)
class LayoutMutation:
    """One fault.

    Attributes:
        name: unique, shown in reports.
        words: the mistake.
        patches: the changed text.
    """

    name: str
    words: str
    patches: tuple[Patch, ...]


@dataclass(frozen=True)
class MutantLayouts:
    """A faulty specification, loaded.

    Attributes:
        row_space: its ``models.row_space``.
        deepseek_v4: its ``models.deepseek_v4``.
    """

    row_space: ModuleType
    deepseek_v4: ModuleType

    def subject(self, name: str, system: str = "row-space") -> Subject:
        """A real configuration by name, with the faulty layout, as something to prove statements of."""
        (config,) = (c for c in self.deepseek_v4.real_configs() if c.name == name)
        return config_subject(config, system)

    def geometry(self, **arguments: Any) -> Any:
        """A faulty layout of concrete sizes."""
        return self.row_space.UnifiedPoolGeometry(**arguments)


@contextmanager
def mutant_layouts(mutation: LayoutMutation) -> Iterator[MutantLayouts]:
    """Load the specification with a fault in it."""
    extra = ("models.index",) if any(p.module == "models.index" for p in mutation.patches) else ()
    with patched((*COPIED, *extra), mutation.patches) as module:
        yield MutantLayouts(module("models.row_space"), module("models.deepseek_v4"))
