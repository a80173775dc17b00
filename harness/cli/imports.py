"""Whether packages can be imported: tried in processes of their own, since a broken one may end its process."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from time import monotonic

IMPORT_SECONDS = 120.0

MODULES: Mapping[str, str] = {"z3-solver": "z3", "ml-dtypes": "ml_dtypes"}
"""Where a distribution's module has another name."""

_SCRIPT = """
import importlib, sys
try:
    importlib.import_module(sys.argv[1])
except BaseException as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


def import_faults(packages: Sequence[str], seconds: float = IMPORT_SECONDS) -> Mapping[str, str]:
    """Why each package cannot be imported, in one line; packages that can are left out.

    Args:
        packages: names of distributions.
        seconds: time for all of them, which are tried at once.
    """
    running = {package: _importing(MODULES.get(package, package)) for package in packages}
    until = monotonic() + seconds
    try:
        faults = {package: _fault(process, until) for package, process in running.items()}
    finally:
        for process in running.values():
            if process.poll() is None:
                process.kill()
                process.communicate()
    return {package: fault for package, fault in faults.items() if fault}


def _importing(module: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _SCRIPT, module]
    return subprocess.Popen(  # noqa: S603  (this Python, without a shell)
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def _fault(process: subprocess.Popen[str], until: float) -> str:
    try:
        _, told = process.communicate(timeout=max(0.0, until - monotonic()))
    except subprocess.TimeoutExpired:
        return f"importing it took more than {IMPORT_SECONDS:g} s"
    if process.returncode == 0:
        return ""
    if process.returncode < 0:
        with suppress(ValueError):
            return f"importing it ends the process ({signal.Signals(-process.returncode).name})"
    lines = told.strip().splitlines()
    return " ".join(lines[-1].split())[:200] if lines else f"importing it ends with status {process.returncode}"
