"""Progress of a run: a bar where a terminal can show one, nothing elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from kvproof.harness.cli.campaign import Listener
from kvproof.harness.cli.terminal import progress_console
from kvproof.reports.result import Result
from kvproof.reports.verdict import Status


class _Silent:
    def planned(self, checks: int) -> None: ...
    def starting(self, what: str) -> None: ...
    def finished(self, result: Result, checks: int) -> None: ...


class _Bar:
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("starting", total=None, notes="")
        self._statuses: dict[tuple[str, ...], Status] = {}

    def planned(self, checks: int) -> None:
        self._progress.update(self._task, total=checks)

    def starting(self, what: str) -> None:
        self._progress.update(self._task, description=what)

    def finished(self, result: Result, checks: int) -> None:
        key = (result.engine, result.subject, result.property_name, result.device)
        self._statuses[key] = result.verdict.status
        counts = Counter(self._statuses.values())
        others = ", ".join(f"{n} {status}" for status, n in counts.items() if status is not Status.PASS)
        self._progress.update(self._task, completed=checks, notes=others)


@contextmanager
def progress() -> Iterator[Listener]:
    """A listener that shows how far a run is, on stderr and only if that is a terminal."""
    console = progress_console()
    if not console.is_terminal:
        yield _Silent()
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
