"""Runs read as series: one value a commit, in the order of the commits."""

from __future__ import annotations

import functools
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kvproof.reports.history.run import ALIKE, Counts, Missing, Run, Times
from kvproof.reports.verdicts.changes import Step, exact_steps, steps

TIME = "time"
"""Metric of times; its unit is microseconds."""

FUZZ = "fuzz"
"""What counted the cases and events of a check."""

COSTS = (
    "instructions",
    "registers",
    "vgprs",
    "stack bytes",
    "local bytes",
    "spill instructions",
    "vgpr spills",
    "sgpr spills",
    "private bytes",
    "shared bytes",
    "resource units",
)
"""Counted metrics of which more is worse."""

_LIBRARIES = ("torch", "triton")


@dataclass(frozen=True)
class Commit:
    """A version of a target.

    Attributes:
        commit, parent, committed, title: as in a run.
    """

    commit: str
    parent: str = ""
    committed: str = ""
    title: str = ""

    @property
    def short(self) -> str:
        """Ten digits, and whether there were changes beside them."""
        return self.commit[:10] + ("+dirty" if self.commit.endswith("+dirty") else "")


@dataclass(frozen=True)
class Point:
    """One value.

    Attributes:
        place: index of its commit among those of the target.
        value: median of times, or the number counted.
        low, high: quartiles of the samples; the value itself for what is counted.
        segment: what it was measured with; values of unlike segments do not compare.
        check: correctness of what was measured.
        clock: MHz, None if unknown.
        bound: least time of the machine in microseconds, None if unknown.
    """

    place: int
    value: float
    low: float
    high: float
    segment: str
    check: str
    clock: float | None = None
    bound: float | None = None


@dataclass(frozen=True)
class Series:
    """One number over the commits of a target.

    Attributes:
        target, name: whose and what.
        on: device that it ran on, GPU that it was compiled for, or what counted it.
        metric: "time" or what was counted.
        points: in the order of the commits.
        relevance: smallest step of a time that counts, as a share.
    """

    target: str
    name: str
    on: str
    metric: str
    points: tuple[Point, ...]
    relevance: float = 0.01

    @property
    def exact(self) -> bool:
        """Whether it is the same on every run."""
        return self.metric != TIME

    @property
    def kernel(self) -> str:
        """The kernel's name."""
        return self.name.split("/")[0].split(" ")[0]

    @functools.cached_property
    def steps(self) -> tuple[Step, ...]:
        """Where it changed; ``index`` counts points. A change of what it was measured with is none."""
        values = [point.value for point in self.points]
        segments = [point.segment for point in self.points]
        if self.on == FUZZ:
            # How many cases a check needs depends on its seed and on the budget: shown, never judged.
            return ()
        if not self.exact:
            return tuple(steps(values, segments, self.relevance))
        return tuple(step for step in exact_steps(values) if segments[step.index] == segments[step.index - 1])

    @property
    def seams(self) -> list[int]:
        """Points at which what it is measured with changed."""
        pairs = zip(self.points, self.points[1:], strict=False)
        return [i for i, (before, after) in enumerate(pairs, 1) if before.segment != after.segment]


@dataclass(frozen=True)
class Timeline:
    """Everything known of one target.

    Attributes:
        target: its name.
        commits: in order.
        series: all of them.
        missing: of each commit by index, what has no number, and why.
        runs: of each commit by index, when and with what it was measured.
    """

    target: str
    commits: tuple[Commit, ...]
    series: tuple[Series, ...]
    missing: Mapping[int, tuple[Missing, ...]] = field(default_factory=dict[int, tuple[Missing, ...]])
    runs: Mapping[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])

    def find(self, commit: str) -> int | None:
        """Index of a commit by its first digits; the newest if several have them."""
        return next(
            (i for i in reversed(range(len(self.commits))) if self.commits[i].commit.startswith(commit)), None
        )


def timelines(runs: Iterable[Run], relevance: float = 0.01) -> list[Timeline]:
    """Every target's series. Several runs of one commit with the same means become one point."""
    by_target: dict[str, list[Run]] = {}
    for run in runs:
        by_target.setdefault(run.target, []).append(run)
    return [_timeline(target, items, relevance) for target, items in sorted(by_target.items())]


def _timeline(target: str, runs: Sequence[Run], relevance: float) -> Timeline:
    known: dict[str, tuple[str, Commit]] = {}
    for run in runs:
        when = run.committed or run.started
        known.setdefault(run.commit, (when, Commit(run.commit, run.parent, run.committed, run.title)))
    commits = [commit for _, commit in sorted(known.values(), key=lambda item: item[0])]
    places = {commit.commit: place for place, commit in enumerate(commits)}
    points: dict[tuple[str, str, str], dict[tuple[int, str], list[Point]]] = {}
    missing: dict[int, tuple[Missing, ...]] = {}
    labels: dict[int, tuple[str, ...]] = {}
    for run in sorted(runs, key=lambda run: run.started):
        place = places[run.commit]
        unusable = (Missing(t.name, "UNKNOWN", f"it was stored with {t.fault}") for t in run.times if t.fault)
        missing[place] = (*missing.get(place, ()), *run.missing, *unusable)
        labels[place] = (
            *labels.get(place, ()),
            " ".join(
                part for part in (run.started, run.device, run.machine.get("host", ""), *_ceilings(run)) if part
            ),
        )
        means = _means(run)
        for times in run.times:
            if times.mode == ALIKE or times.fault:
                continue
            point = _time(times, means, place)
            points.setdefault((times.name, run.device, TIME), {}).setdefault((place, point.segment), []).append(
                point
            )
        for counts in run.counts:
            segment = _counted(counts, run)
            for metric, value in counts.values.items():
                key = (counts.name, counts.on, metric)
                point = Point(place, value, value, value, segment, counts.check)
                points.setdefault(key, {}).setdefault((place, segment), []).append(point)
    series = [
        Series(target, name, on, metric, _ordered(found), relevance)
        for (name, on, metric), found in sorted(points.items())
    ]
    return Timeline(target, tuple(commits), tuple(series), missing, labels)


def _ordered(found: Mapping[tuple[int, str], Sequence[Point]]) -> tuple[Point, ...]:
    """One point a commit and segment, by commit; of one commit, the segment met first comes first."""
    merged = [_merged(points) for points in found.values()]
    return tuple(sorted(merged, key=lambda point: point.place))


def _merged(points: Sequence[Point]) -> Point:
    if len(points) == 1:
        return points[0]
    middle = statistics.median(point.value for point in points)
    last = points[-1]
    low, high = min(point.low for point in points), max(point.high for point in points)
    return Point(last.place, middle, low, high, last.segment, last.check, last.clock, last.bound)


def _ceilings(run: Run) -> list[str]:
    """What the machine could do at best, as far as a run measured that."""
    return [f"({rate} {name})" for name, rate in run.machine.items() if name.endswith(" a second")]


def _means(run: Run) -> str:
    """What a run measured times with."""
    libraries = " ".join(f"{name} {run.versions.get(name, '')}" for name in _LIBRARIES)
    parts = (run.machine.get("host", ""), f"driver {run.driver}" if run.driver else "", libraries)
    return "; ".join(part for part in parts if part)


def _time(times: Times, means: str, place: int) -> Point:
    low, middle, high = _quartiles(sorted(times.samples))
    segment = f"{means}; {times.mode}; case {times.case}" if times.case else f"{means}; {times.mode}"
    # One string for all points of a series: they are compared with one another all the time.
    return Point(place, middle, low, high, sys.intern(segment), times.check, times.clock, times.bound)


def _quartiles(ordered: Sequence[float]) -> tuple[float, float, float]:
    """Quartiles by linear interpolation between the samples next to them."""
    found: list[float] = []
    for share in (0.25, 0.5, 0.75):
        place = share * (len(ordered) - 1)
        below = int(place)
        above = min(below + 1, len(ordered) - 1)
        found.append(ordered[below] + (ordered[above] - ordered[below]) * (place - below))
    return found[0], found[1], found[2]


def _counted(counts: Counts, run: Run) -> str:
    compiler = f"triton {run.versions.get('triton', '')}"
    return f"{compiler}; case {counts.case}" if counts.case else compiler
