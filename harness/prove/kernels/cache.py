"""Results of checks by what they depend on: a kernel whose IR has not changed costs nothing.

Two keys. The *tree* is the text of everything that a check reads; if it is the same, nothing need even be
compiled. Otherwise a kernel's own key counts: its IR without places, how it is launched, what its contract's
modules and the checker say.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from kvproof.harness.ir.reader import Module, structure
from kvproof.harness.prove.kernels.launch import Setting
from kvproof.harness.prove.kernels.rows import Row, rows_from_json, rows_json
from kvproof.harness.solve.term import show
from kvproof.reports.store import default_root, write_atomically
from kvproof.reports.verdict import Status

VERSION = 1
"""Raised when cached results would be read wrongly by this code."""

_ROOT = Path(__file__).resolve().parents[3]
_CHECKER = ("harness/ir", "harness/prove/kernels", "harness/solve", "harness/symbolic", "models")
_EVERYTHING = (*_CHECKER, "kernels", "properties/strategies")
# How a product of matrices rounds has no part in an address; vendors' defaults differ in it.
_PRECISION = re.compile(r" inputPrecision=\w+")
_PACKAGES = ("triton", "torch", "z3-solver", "hypothesis", "numpy")


def _digest(parts: Iterable[str]) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(part.encode())
        whole.update(b"\0")
    return whole.hexdigest()[:24]


@lru_cache(maxsize=8)
def _text(folders: tuple[str, ...], names: str = "*.py") -> str:
    files = sorted(p for folder in folders for p in (_ROOT / folder).rglob(names) if "__pycache__" not in p.parts)
    return _digest(f"{p.relative_to(_ROOT)}\0{p.read_text(encoding='utf-8')}" for p in files)


def _versions() -> str:
    found: list[str] = [str(VERSION)]
    for package in _PACKAGES:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{package} absent")
    return ", ".join(found)


def tree_key(*choices: str) -> str:
    """Key of everything that a check reads, with what was chosen for it."""
    return _digest(["tree", _versions(), _text(_EVERYTHING), *choices])


def kernel_key(setting: Setting, modules: Sequence[Module], *choices: str) -> str:
    """Key of one kernel: its IR, its launches, its contract and the checker."""
    launches = [
        f"{sorted((n, show(t)) for n, t in launch.arguments.items())} {sorted(map(_view, launch.views.values()))} "
        f"{[show(size) for size in launch.grid]} {[(q.name, q.range) for q in launch.loose]}"
        for launch in setting.launches
    ]
    quantities = f"{[(q.name, q.range) for q in setting.quantities]} {sorted(setting.fixed.items())}"
    contracts = [_text(("kernels",), "contract.py"), _text(("kernels",), "*spec.py"), _text(_CHECKER)]
    # Structured values (a geometry) go by the numbers that launches take from them, and by the drawn case.
    values = sorted((n, str(v)) for n, v in setting.values.items() if isinstance(v, (int, str, bool)))
    hashes = [_digest([_PRECISION.sub("", structure(module))]) for module in modules]
    return _digest(["kernel", _versions(), *hashes, *launches, quantities, str(values), *contracts, *choices])


def _view(view: object) -> str:
    return str(view)


class Cache:
    """Results on disk.

    Args:
        folder: where; by default ``ir-cache`` of the store.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or default_root() / "ir-cache"

    def get(self, key: str) -> list[Row] | None:
        """The rows kept under a key; None if there are none, or none that can be read."""
        path = self._folder / f"{key}.json"
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            return rows_from_json(data["rows"]) if data["version"] == VERSION else None
        except OSError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError):
            # Set aside, to be looked at; the check runs anew.
            with suppress(OSError):
                path.replace(path.with_suffix(".damaged"))
            return None

    def put(self, key: str, rows: Sequence[Row]) -> None:
        """Keep rows under a key. A folder that cannot be written is no reason to fail a check.

        What a solver could not decide is not kept: with more time, or on a machine that does less else, it may.
        """
        if any(row.status == Status.UNKNOWN for row in rows):
            return
        text = json.dumps({"version": VERSION, "rows": rows_json(rows)}, indent=1)
        try:
            write_atomically(self._folder / f"{key}.json", text + os.linesep)
        except OSError:
            return
