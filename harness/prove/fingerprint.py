"""What a proof depends on, as one hash: equal fingerprints have equal obligations, so nothing need run again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

from kvproof.harness.solve.query import Budget
from kvproof.reports.finding import canonical_json

SOURCES = (
    "models/index.py",
    "models/errors.py",
    "models/row_space",
    "models/deepseek_v4",
    "models/schema",
    "models/scratch",
    "properties/statement.py",
    "properties/layouts",
    "harness/solve",
    "harness/symbolic",
    "harness/prove",
)
"""Code that decides what is asked: files, or folders with the modules directly in them."""


def fingerprint(
    subject: str, description: Mapping[str, Any], statement: str, solvers: Mapping[str, str], budget: Budget
) -> str:
    """Hash of a proof's inputs: the code, the subject, the statement, the solvers' versions and their budget."""
    inputs = [source_digest(), subject, description, statement, dict(solvers), [budget.resources, budget.seed]]
    return hashlib.sha256(canonical_json(inputs).encode()).hexdigest()[:32]


@cache
def source_digest() -> str:
    """Hash of the text of :data:`SOURCES`. If only a comment differs, the obligations are made again, and fit."""
    digest = hashlib.sha256()
    for name, text in _sources():
        digest.update(name.encode())
        digest.update(text.encode())
    return digest.hexdigest()


def _sources() -> Iterator[tuple[str, str]]:
    root = resources.files("kvproof")
    for source in SOURCES:
        found = root.joinpath(source)
        modules = [found] if found.is_file() else sorted(found.iterdir(), key=lambda entry: entry.name)
        for module in modules:
            if module.name.endswith(".py"):
                yield f"{source}:{module.name}", module.read_text(encoding="utf-8")
