"""A page for each name and device: its time, or everything that is counted of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvproof.reports.history.series import TIME, Series, Timeline
from kvproof.reports.site.charts import chart, points_table, unit
from kvproof.reports.site.markup import change, facts, link, number, page, slug, table, text
from kvproof.reports.site.steps import steps_table
from kvproof.reports.verdicts.changes import SHORTEST
from kvproof.reports.verdicts.compare import Change
from kvproof.reports.verdicts.regressions import regressions

MOST_CHARTS = 8
"""Charts of counted metrics on one page; all metrics are in its table."""


@dataclass(frozen=True)
class Group:
    """The series of one name on one device.

    Attributes:
        timeline: the target's.
        name, on: as in a series.
        series: its metrics.
    """

    timeline: Timeline
    name: str
    on: str
    series: tuple[Series, ...]

    @property
    def address(self) -> str:
        """Of its page, from the site's root."""
        return f"series/{slug(self.timeline.target, self.name, self.on)}.html"

    @property
    def main(self) -> Series:
        """The series that stands for it in lists: the time, or the instructions, or the first."""
        by_metric = {series.metric: series for series in self.series}
        return by_metric.get(TIME) or by_metric.get("instructions") or self.series[0]


def groups(timeline: Timeline) -> list[Group]:
    """All groups of a target."""
    found: dict[tuple[str, str], list[Series]] = {}
    for series in timeline.series:
        found.setdefault((series.name, series.on), []).append(series)
    return [Group(timeline, name, on, tuple(items)) for (name, on), items in found.items()]


def series_page(group: Group, made: str) -> str:
    """The page of a group."""
    timeline = group.timeline
    target = slug(timeline.target)
    kernel = f"../kernels/{slug(timeline.target, group.main.kernel)}.html"
    head = facts(
        {
            "target": text(timeline.target),
            "measured on": text(group.on),
            "kernel": link(kernel, group.main.kernel),
        }
    )
    parts = [head]
    found = regressions(Timeline(timeline.target, timeline.commits, group.series))
    parts += ["<h2>Steps</h2>", steps_table(found, depth=1)]
    if not group.main.exact and len(group.main.points) < 2 * SHORTEST:
        parts.append(f'<p class="note">Steps of times need {SHORTEST} runs on each side.</p>')
    commands = [item.bisect for item in found if item.change is Change.SLOWER]
    if commands:
        parts.append(f"<p>To find the commit:</p><pre>{text(chr(10).join(commands))}</pre>")
    changed = [s for s in group.series if not s.exact or s.steps or s.seams] or [group.main]
    for place, series in enumerate(_by_importance(changed)[:MOST_CHARTS]):
        parts.append(f"<h2>{text(unit(series).capitalize())}</h2>")
        parts.append(chart(timeline, series, f"chart-{place}"))
        parts.append(f"<details{' open' if place == 0 else ''}><summary>Every value</summary>")
        parts.append(points_table(timeline, series, target) + "</details>")
    if len(group.series) > 1:
        parts += ["<h2>All that is counted</h2>", _all_metrics(group)]
    return page(f"{group.name} on {group.on}", "\n".join(parts), depth=1, chart=True, made=made)


def _by_importance(series: Sequence[Series]) -> list[Series]:
    first = ("time", "instructions", "registers", "vgprs", "spill instructions", "code bytes", "shared bytes")
    return sorted(series, key=lambda s: (first.index(s.metric) if s.metric in first else len(first), s.metric))


def _all_metrics(group: Group) -> str:
    rows = [
        [
            text(series.metric),
            number(series.points[0].value),
            number(series.points[-1].value),
            text(change(series.points[0].value, series.points[-1].value)),
            str(len(series.steps)),
        ]
        for series in _by_importance(group.series)
    ]
    heads = ["metric", "first", "latest", "change", "steps"]
    return table("Every metric, first and latest commit", heads, rows, right=range(1, 5))
