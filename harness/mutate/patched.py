"""A copy of some modules with a few places of their text changed, importable beside the original."""

from __future__ import annotations

import importlib
import itertools
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

_numbers = itertools.count()


class PatchError(ValueError):
    """A patch does not fit the text it is for: the code has moved on, or the place is not unique."""


@dataclass(frozen=True)
class Patch:
    """One change of a module's text.

    Attributes:
        module: module below ``kvproof`` ("models.row_space.rows").
        old: text that occurs exactly once in it.
        new: what stands there instead.
    """

    module: str
    old: str
    new: str


@contextmanager
def patched(
    copies: Sequence[str], patches: Sequence[Patch] = (), sources: Path | None = None
) -> Iterator[Callable[[str], ModuleType]]:
    """Copies of modules, patched, under a package name of their own.

    Args:
        copies: modules or packages below ``kvproof`` ("models.row_space"). Their imports of each other lead to the
            copies, all other imports to the originals. What is patched has to be among them.
        patches: the changes.
        sources: folder that holds models/ and the others, if not the ones in use: those of another revision.

    Yields:
        A function from a copied module's name below ``kvproof`` to the module.

    Raises:
        PatchError: a patch whose text does not occur exactly once, or whose module is not copied.
    """
    alias = f"kvproof_patched_{next(_numbers)}"
    folder = Path(tempfile.mkdtemp(prefix="kvproof-"))
    try:
        _copy(folder / alias, copies, sources)
        for patch in patches:
            _apply(folder / alias, patch)
        _redirect(folder / alias, alias, copies)
        sys.path.insert(0, str(folder))
        importlib.invalidate_caches()
        yield lambda name: importlib.import_module(f"{alias}.{name}")
    finally:
        if str(folder) in sys.path:
            sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name == alias or name.startswith(f"{alias}.")]:
            del sys.modules[name]
        shutil.rmtree(folder, ignore_errors=True)


def _source(name: str) -> Path:
    """The module's file, or the package's folder."""
    found = importlib.import_module(f"kvproof.{name}").__file__
    assert found is not None, name
    path = Path(found)
    return path.parent if path.name == "__init__.py" else path


def _copy(root: Path, copies: Sequence[str], sources: Path | None) -> None:
    for name in copies:
        source = _source(name) if sources is None else sources.joinpath(*name.split("."))
        if sources is not None and not source.is_dir():
            source = source.with_suffix(".py")
        target = root.joinpath(*name.split("."))
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target.with_suffix(".py"))


def _apply(root: Path, patch: Patch) -> None:
    base = root.joinpath(*patch.module.split("."))
    path = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    if not path.exists():
        raise PatchError(f"module {patch.module!r} is not among the copies")
    text = path.read_text(encoding="utf-8")
    count = text.count(patch.old)
    if count != 1:
        raise PatchError(f"{patch.old!r} occurs {count} times in {patch.module}; a patch needs exactly one")
    path.write_text(text.replace(patch.old, patch.new), encoding="utf-8")


def _redirect(root: Path, alias: str, copies: Sequence[str]) -> None:
    inner = "|".join(re.escape(name) for name in copies)
    pattern = re.compile(rf"\bkvproof\.({inner})\b")
    for path in root.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        path.write_text(pattern.sub(rf"{alias}.\1", text), encoding="utf-8")
