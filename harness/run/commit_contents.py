"""Hashes of what of a checkout can change a result: commits that share one need not be looked into twice."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Sequence
from pathlib import Path

from kvproof.harness.targets.profile import Profile


def imports_hash(root: Path, module: str, profile: Profile) -> str:
    """Hash over a module's file and the files of the checkout that it imports, and they; not what is stubbed."""
    files: dict[str, bytes] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        file = root.joinpath(*name.split(".")).with_suffix(".py")
        if name in files or name in profile.stubs or not file.is_file():
            continue
        files[name] = file.read_bytes()
        for node in ast.walk(ast.parse(files[name])):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                waiting += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                waiting += [alias.name for alias in node.names]
    return hashlib.sha256(b"\0".join(name.encode() + b"\0" + files[name] for name in sorted(files))).hexdigest()


def content_hash(folder: Path, relevant: Sequence[str]) -> str:
    """Hash over the files that can change a result."""
    digest = hashlib.sha256()
    for path in relevant:
        place = folder / path
        files = sorted(place.rglob("*.py")) if place.is_dir() else [place] if place.is_file() else []
        for file in files:
            digest.update(str(file.relative_to(folder)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()
