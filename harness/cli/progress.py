"""Progress of a run: a bar where a terminal can show one; elsewhere a line now and then while nothing ends."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from kvproof.harness.cli.campaign import Listener
from kvproof.harness.cli.terminal import progress_console
from kvproof.reports.result import Result
from kvproof.reports.verdict import Status

SILENCE_SECONDS = 30.0
"""Without a terminal, a run that has had no result for so long says what it is doing."""


class _Lines:
    """Says on stderr what a run is doing while it has no result."""

    def __init__(self) -> None:
        self._checks = self._done = 0
        self._last = monotonic()

    def planned(self, checks: int) -> None:
        self._checks = checks

    def starting(self, what: str) -> None: ...

    def doing(self, what: str) -> None:
        if what and monotonic() - self._last >= SILENCE_SECONDS:
            self._last = monotonic()
            print(f"kvproof: {self._done} of {self._checks} checks done; {what}", file=sys.stderr, flush=True)

    def finished(self, result: Result, checks: int) -> None:  # noqa: ARG002  (a listener's)
        self._done, self._last = checks, monotonic()


class _Bar:
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("starting", total=None, notes="")
        self._statuses: dict[tuple[str, ...], Status] = {}

    def planned(self, checks: int) -> None:
        self._progress.update(self._task, total=checks)

    def starting(self, what: str) -> None:
        self._progress.update(self._task, description=what)

    def doing(self, what: str) -> None:
        self._progress.update(self._task, description=what or "proving")

    def finished(self, result: Result, checks: int) -> None:
        key = (result.engine, result.subject, result.property_name, result.device)
        self._statuses[key] = result.verdict.status
        counts = Counter(self._statuses.values())
        others = ", ".join(f"{n} {status}" for status, n in counts.items() if status is not Status.PASS)
        self._progress.update(self._task, completed=checks, notes=others)


@contextmanager
def progress() -> Iterator[Listener]:
    """A listener that shows how far a run is, on stderr."""
    console = progress_console()
    if not console.is_terminal:
        yield _Lines()
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[notes]}", markup=False),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        yield _Bar(bar)
