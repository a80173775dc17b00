"""Consoles for results (stdout) and for progress (stderr)."""

from __future__ import annotations

import sys

from rich.console import Console

_PIPE_WIDTH = 140
"""Columns where no terminal says how many there are: enough that no cell of a table is cut."""


def output_console() -> Console:
    """Where results go."""
    return Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH, highlight=False, soft_wrap=False)


def progress_console() -> Console:
    """Where progress goes: stderr, so that a redirected result stays clean."""
    return Console(stderr=True, highlight=False)
