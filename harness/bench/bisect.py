"""Which commit changed a number: halves a range of commits, measuring only what decides."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from kvproof.harness.bench.suite import Request
from kvproof.harness.bench.versions import checkout, git, measure, open_version
from kvproof.reports.errors import ReportError
from kvproof.reports.history.run import Run

Probe = Callable[[str], float | None]
"""Measures a commit; None where it has no number."""


@dataclass
class Found:
    """What a search found.

    Attributes:
        first: the first commit with the new number.
        good, bad: numbers at both ends.
        measured: number at each commit that was measured; None where there was none.
        unsure: commits without a number right before ``first``: it may be one of them.
    """

    first: str
    good: float
    bad: float
    measured: dict[str, float | None] = field(default_factory=dict[str, "float | None"])
    unsure: list[str] = field(default_factory=list[str])


def commits_between(repository: Path, good: str, bad: str) -> list[str]:
    """The commits after ``good`` up to ``bad``, along first parents, oldest first.

    Raises:
        ReportError: no such revisions, or nothing between them.
    """
    listed = git(repository, "rev-list", "--first-parent", "--reverse", f"{good}..{bad}").split()
    if not listed:
        raise ReportError(f"there is no commit after {good} up to {bad}")
    return listed


def search(commits: list[str], good: str, probe: Probe) -> Found:
    """The first of the commits whose number is nearer to that of the last than to that of ``good``.

    Raises:
        ReportError: either end has no number, or both have the same.
    """
    low, high = probe(good), probe(commits[-1])
    if low is None or high is None:
        raise ReportError(f"{good if low is None else commits[-1]} has no number for this series")
    if low == high:
        raise ReportError(f"both ends have the same number, {low:g}")
    known: dict[str, float | None] = {commits[-1]: high}
    # Everything below `begin` has the old number, everything from `end` on the new one.
    begin, end = 0, len(commits) - 1
    while True:
        open_places = [i for i in range(begin, end) if commits[i] not in known]
        if not open_places:
            break
        middle = min(open_places, key=lambda i: abs(i - (begin + end - 1) / 2))
        value = known[commits[middle]] = probe(commits[middle])
        if value is None:
            continue
        if abs(value - high) < abs(value - low):
            end = middle
        else:
            begin = middle + 1
    return Found(commits[end], low, high, {good: low, **known}, commits[begin:end])


def probe_of(
    target: str, kind: str, series: str, metric: str, scratch: Path, tell: Callable[[str], None]
) -> Probe:
    """Measures one series of a target's commit.

    Args:
        target: "builtin" or "NAME:PATH".
        kind: "offline", "cpu" or "gpu".
        series: its name.
        metric: "time" or what is counted, with the GPU it is compiled for ("cuda:90 instructions").
        scratch: folder that revisions are unpacked into.
        tell: told of each measurement.
    """
    kernel = series.split("/", maxsplit=1)[0].split(" ", maxsplit=1)[0]

    def probe(commit: str) -> float | None:
        version = open_version(f"{target}@{commit}", scratch)
        with tempfile.TemporaryDirectory() as folder:
            request = Request(kind, str(Path(folder) / "answer.json"), kernels=(kernel,), check_seconds=0)
            if kind == "offline":
                request = replace(request, targets=(metric.split(" ", maxsplit=1)[0],))
            try:
                run = measure(version, request)
            except ReportError as error:
                tell(f"{commit[:12]} no number: {error}")
                return None
        value = next(values_of(run, series, metric), None)
        tell(f"{commit[:12]} {'no number' if value is None else f'{value:g}'}  {version.title[:60]}")
        return value

    return probe


def values_of(run: Run, series: str, metric: str) -> Iterator[float]:
    """The series' numbers in a run."""
    if metric == "time":
        # On a machine that other work shares, noise only ever adds.
        yield from (min(t.samples) if t.mode == "host" else t.median for t in run.times if t.name == series)
        return
    on, _, name = metric.partition(" ")
    yield from (float(c.values[name]) for c in run.counts if c.name == series and c.on == on and name in c.values)


def repository_of(target: str) -> Path:
    """The repository that a target's revisions are in."""
    return checkout() if target == "builtin" else Path(target.partition(":")[2])
