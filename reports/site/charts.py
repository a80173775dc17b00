"""A series as a chart and as the table behind it."""

from __future__ import annotations

import itertools

import numpy as np

from kvproof.reports.history.series import COSTS, TIME, Series, Timeline
from kvproof.reports.site.markup import change, embedded, link, number, table, text, verdict
from kvproof.reports.verdicts.changes import noise_of

BAND = 2.0
"""Standard deviations of the noise band around a level."""


def unit(series: Series) -> str:
    """What its values are."""
    return "microseconds" if series.metric == TIME else series.metric


def worse(series: Series, before: float, after: float) -> bool:
    """Whether a step is for the worse."""
    return after > before and (series.metric == TIME or series.metric in COSTS)


def level_bounds(series: Series) -> list[int]:
    """Points at which a level begins, and the end."""
    starts = {0, *(step.index for step in series.steps), *series.seams}
    return [*sorted(starts), len(series.points)]


def band(series: Series) -> tuple[list[float], list[float]] | None:
    """Of each point, the ends of the noise band of its level; None for what is exact."""
    if series.exact or len(series.points) < 2:
        return None
    values = np.array([point.value for point in series.points])
    low, high = np.empty(values.size), np.empty(values.size)
    bounds = level_bounds(series)
    for begin, end in itertools.pairwise(bounds):
        part = values[begin:end]
        reach = BAND * noise_of(np.log(part))
        middle = float(np.median(part))
        low[begin:end], high[begin:end] = middle * np.exp(-reach), middle * np.exp(reach)
    return [float(f"{v:.5g}") for v in low], [float(f"{v:.5g}") for v in high]


def chart(timeline: Timeline, series: Series, name: str) -> str:
    """The chart, what a keyboard reads from it, and its data."""
    noise = band(series)
    commits = [timeline.commits[point.place] for point in series.points]
    data = {
        "label": f"{series.name} {series.metric}",
        "unit": unit(series),
        "values": [float(f"{point.value:.6g}") for point in series.points],
        "low": noise[0] if noise else None,
        "high": noise[1] if noise else None,
        "commits": [f"{c.short} {c.title[:60]}" for c in commits],
        "steps": [
            {
                "at": step.index,
                "amount": change(step.before, step.after),
                "worse": worse(series, step.before, step.after),
            }
            for step in series.steps
        ],
        "seams": series.seams,
    }
    first, last = series.points[0].value, series.points[-1].value
    many = "1 step" if len(series.steps) == 1 else f"{len(series.steps)} steps"
    words = (
        f"{series.name} on {series.on}, {unit(series)} over {len(series.points)} commits: from {number(first)} to "
        f"{number(last)}, {many}. Arrow keys read the runs; a table below has the same numbers."
    )
    return (
        f'<div class="chart" id="{name}" role="img" tabindex="0" aria-label="{text(words)}"></div>'
        f'<p class="reading" id="{name}-reading" aria-live="polite"></p>' + embedded(f"{name}-data", data)
    )


def points_table(timeline: Timeline, series: Series, target_slug: str) -> str:
    """Every value of a series, the newest first."""
    steps = {step.index: step for step in series.steps}
    seams = set(series.seams)
    rows: list[list[str]] = []
    for i in reversed(range(len(series.points))):
        point = series.points[i]
        commit = timeline.commits[point.place]
        notes: list[str] = []
        if i in steps:
            step = steps[i]
            word = "SLOWER" if worse(series, step.before, step.after) else "FASTER"
            if series.exact and series.metric not in COSTS:
                word = "AMBIGUOUS"
            notes.append(f"{verdict(word)} {text(change(step.before, step.after))}")
        if i in seams or i == 0:
            notes.append(text(f"measured with {point.segment}"))
        if point.check != "PASS":
            notes.append(f"unchecked: {verdict(point.check)}")
        spread = [number(point.low), number(point.high)] if not series.exact else []
        cycles = [number(point.value * point.clock) if point.clock else ""] if not series.exact else []
        rows.append(
            [
                link(f"../commits/{target_slug}-{commit.commit[:12]}.html", commit.short),
                text(commit.title[:70]),
                number(point.value),
                *spread,
                *cycles,
                "; ".join(notes),
            ]
        )
    extra = [] if series.exact else ["first quartile", "third quartile", "cycles"]
    heads = ["commit", "title", unit(series), *extra, "notes"]
    return table(f"{series.name} on {series.on}: {unit(series)}", heads, rows, right=range(2, len(heads) - 1))
