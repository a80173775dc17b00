"""Where a run takes place: commit, versions and machine. Imports no package that it reports on."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

REPORTED_PACKAGES = ("kvproof", "numpy", "torch", "triton", "z3-solver", "cvc5", "hypothesis", "pytest")
"""Distributions whose version a result may depend on."""

TRITON_DISTRIBUTIONS = ("triton", "pytorch-triton-rocm", "triton-rocm", "pytorch-triton", "triton-windows")
"""Names under which Triton is distributed; a ROCm build has one of its own."""


def package_version(name: str) -> str:
    """Version of an installed distribution, or "" if it is absent. Reads metadata and imports nothing."""
    for distribution in TRITON_DISTRIBUTIONS if name == "triton" else (name,):
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    return ""


def versions() -> dict[str, str]:
    """Python's version and those of :data:`REPORTED_PACKAGES`; "" for an absent one."""
    return {"python": platform.python_version(), **{name: package_version(name) for name in REPORTED_PACKAGES}}


@functools.cache
def _machine() -> tuple[tuple[str, str], ...]:
    return (
        ("host", platform.node()),
        ("system", f"{platform.system()} {platform.release()}"),
        ("architecture", platform.machine()),
        ("processor", _processor()),
        ("cores", str(_usable_cores())),
    )


def machine() -> dict[str, str]:
    """Host, system, architecture, processor and usable cores."""
    return dict(_machine())


def _usable_cores() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except (OSError, UnicodeDecodeError):
        pass
    return platform.processor() or "unknown"


@functools.cache
def commit() -> str:
    """Commit of the kvproof that runs ("+dirty" with uncommitted changes); "" outside a checkout of its own.

    An installed copy may lie inside the checkout of some other project, whose commit says nothing here.
    """
    folder = Path(__file__).resolve().parent.parent
    if not (folder / "src" / "kvproof").is_dir() or _git(folder, "rev-parse", "--show-cdup") != "":
        return ""
    head = _git(folder, "rev-parse", "HEAD")
    if not head:
        return ""
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return f"{head}+dirty" if changed else head


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603  (fixed arguments)
            ["git", "-C", str(folder), *arguments],  # noqa: S607  (found on the user's path)
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a finding keeps of where it was met: the versions that are installed, and the machine."""
    installed = {name: value for name, value in versions().items() if value}
    return {**installed, **machine(), **(extra or {})}


def utc_now() -> str:
    """The present moment as records write it ("2026-08-11T09:30:00Z")."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
