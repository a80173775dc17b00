"""What became worse, in which range of commits, and the command that finds the one."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kvproof.reports.history.series import COSTS, TIME, Commit, Series, Timeline
from kvproof.reports.verdicts.compare import Change


@dataclass(frozen=True)
class Regression:
    """A step of a series.

    Attributes:
        series: which.
        change: SLOWER (of what is counted: more of what costs), FASTER, SAME if it is too small to matter, or
            AMBIGUOUS where more is neither.
        good, bad: last commit before it and first after it.
        between: measured commits after it, up to now.
        before, after: levels.
        p: as in a step.
    """

    series: Series
    change: Change
    good: Commit
    bad: Commit
    between: int
    before: float
    after: float
    p: float

    @property
    def ratio(self) -> float:
        """After over before, minus one."""
        return self.after / self.before - 1 if self.before else float("inf")

    @property
    def amount(self) -> str:
        """By how much."""
        if self.before:
            return f"{self.ratio:+.1%}"
        return f"+{self.after:g}"

    @property
    def words(self) -> str:
        """In one line."""
        unit = " us" if self.series.metric == TIME else ""
        return (
            f"{self.change} {self.series.name} on {self.series.on}: {self.series.metric} "
            f"{self.before:.6g}{unit} to {self.after:.6g}{unit} ({self.amount}), "
            f"{self.good.short}..{self.bad.short}"
        )

    @property
    def bisect(self) -> str:
        """The command that finds the commit."""
        parts = ["kvproof", "bisect", self.series.name, self.good.commit[:12], self.bad.commit[:12]]
        parts += ["--on", self.series.on, "--metric", self.series.metric]
        if self.series.target != "builtin":
            parts += ["--target", f"{self.series.target}:PATH"]
        return shlex.join(parts)


def regressions(timeline: Timeline, last: int | None = None) -> list[Regression]:
    """Steps of all series, the newest first and the largest first among those.

    Args:
        timeline: the target's.
        last: only those among so many of the newest commits; None for all.
    """
    oldest = 0 if last is None else len(timeline.commits) - last
    found = [
        _regression(timeline, series, step.index, step.before, step.after, step.p)
        for series in timeline.series
        for step in series.steps
        if series.points[step.index].place >= oldest
    ]
    places = {commit.commit: place for place, commit in enumerate(timeline.commits)}
    return sorted(found, key=lambda item: (-places[item.bad.commit], -abs(item.ratio), item.series.name))


def _regression(
    timeline: Timeline, series: Series, index: int, before: float, after: float, p: float
) -> Regression:
    change = Change.SLOWER if after > before else Change.FASTER
    if series.exact and series.metric not in COSTS:
        change = Change.AMBIGUOUS
    elif before and abs(after / before - 1) < series.relevance:
        # Certain, and too small to matter.
        change = Change.SAME
    good, bad = (timeline.commits[series.points[i].place] for i in (index - 1, index))
    return Regression(series, change, good, bad, len(series.points) - index, before, after, p)


def worse(found: Iterable[Regression]) -> list[Regression]:
    """Those that are worse."""
    return [item for item in found if item.change is Change.SLOWER]


def headline(timeline: Timeline, found: Sequence[Regression], last: int) -> str:
    """Today's verdict in one line.

    Args:
        timeline: the target's.
        found: its steps among the last commits.
        last: how many commits these are.
    """
    if not timeline.commits:
        return f"{timeline.target}: nothing was measured"
    newest = timeline.commits[-1].short
    count = len(timeline.series)
    slower = [item for item in found if item.change is Change.SLOWER]
    faster = [item for item in found if item.change is Change.FASTER]
    word = "SLOWER" if slower else "FASTER" if faster else "SAME"
    text = f"{word}: {timeline.target} {newest}, {count:,} series over {len(timeline.commits):,} commits"
    if not slower and not faster:
        return f"{text}; no step in the last {last}"
    parts = [f"{len(items):,} {name}" for name, items in (("worse", slower), ("better", faster)) if items]
    return f"{text}; in the last {last}: {', '.join(parts)}"
