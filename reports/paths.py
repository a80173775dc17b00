"""One way to write the path of a source file in a report: never absolute, never through the package's links."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]


@lru_cache(maxsize=4096)
def report_path(path: str) -> str:
    """A path as reports show it.

    Inside this checkout it is relative to its root ("kernels/window_write/kernel.py"), inside an installed
    package relative to the installation ("triton/language/standard.py"), below the current directory relative
    to that; of any other the last two parts are kept, so that a user's folders stay private.
    """
    real = Path(path)
    if real.is_absolute():
        real = real.resolve()
    parts = real.parts
    for mark in ("site-packages", "dist-packages"):
        if mark in parts:
            at = len(parts) - 1 - parts[::-1].index(mark)
            return "/".join(parts[at + 1 :])
    for base in (_ROOT, Path.cwd()):
        if real.is_relative_to(base):
            return real.relative_to(base).as_posix()
    if real.is_absolute() or ".." in parts:
        return "/".join(parts[-2:])
    return real.as_posix()
