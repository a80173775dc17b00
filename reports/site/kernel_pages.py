"""A page for each kernel: how fast it is, what its compiled code holds, and what is proved of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvproof.reports.history.series import TIME, Timeline
from kvproof.reports.record import Record
from kvproof.reports.site.markup import change, link, number, page, slug, sparkline, table, text, verdict
from kvproof.reports.site.series_pages import Group
from kvproof.reports.site.steps import steps_table
from kvproof.reports.verdicts.regressions import Regression

SHOWN = (
    "instructions",
    "registers",
    "vgprs",
    "sgprs",
    "spill instructions",
    "vgpr spills",
    "stack bytes",
    "shared bytes",
    "code bytes",
    "loads",
    "stores",
    "async loads",
    "matrix instructions",
    "IR operations",
)
"""Counted metrics of the resource table, as far as a target has them."""


def kernel_address(target: str, kernel: str) -> str:
    """Of a kernel's page, from the site's root."""
    return f"kernels/{slug(target, kernel)}.html"


def kernel_page(
    timeline: Timeline,
    kernel: str,
    groups: Sequence[Group],
    steps: Sequence[Regression],
    records: Sequence[Record],
    made: str,
) -> str:
    """The page of a kernel of a target."""
    times = [group for group in groups if group.main.metric == TIME]
    compiled = [group for group in groups if group.main.metric == "instructions"]
    parts = ["<h2>Time</h2>", _times(timeline, times), "<h2>Compiled code</h2>", _resources(timeline, compiled)]
    parts += ["<h2>Steps</h2>", steps_table(steps, depth=1)]
    parts += ["<h2>Correctness</h2>", _correctness(kernel, timeline.target, records)]
    newest = timeline.missing.get(len(timeline.commits) - 1, ())
    lacking = [m for m in newest if m.name.split("/")[0].split(" ")[0] == kernel]
    if lacking:
        rows = [[text(m.name), verdict(m.status), text(m.reason)] for m in lacking]
        parts += ["<h2>Not measured at the newest commit</h2>"]
        parts.append(table("Without a number, and why", ["series", "status", "reason"], rows))
    return page(f"{kernel} ({timeline.target})", "\n".join(parts), depth=1, made=made)


def _times(timeline: Timeline, groups: Sequence[Group]) -> str:
    rows: list[list[str]] = []
    for group in groups:
        last = group.main.points[-1]
        share = "not measured"
        if last.bound:
            share = f"{last.bound / last.value:.0%}" if last.bound >= 0.01 * last.value else text("<1%")
        rows.append(
            [
                link(f"../{group.address}", group.name),
                text(group.on),
                number(last.value),
                number(last.value * last.clock) if last.clock else "",
                share,
                sparkline([point.value for point in group.main.points[-60:]]),
                verdict(last.check),
                text(timeline.commits[last.place].short),
            ]
        )
    heads = ["case", "device", "us", "cycles", "share of peak", "history", "correctness", "at commit"]
    return table("Latest time of each case", heads, rows, right=(2, 3, 4))


def _resources(timeline: Timeline, groups: Sequence[Group]) -> str:
    known = [m for m in SHOWN if any(s.metric == m for g in groups for s in g.series)]
    rows: list[list[str]] = []
    for group in groups:
        by_metric = {series.metric: series for series in group.series}
        cells: list[str] = []
        for metric in known:
            series = by_metric.get(metric)
            if series is None:
                cells.append("")
                continue
            first, last = series.points[0].value, series.points[-1].value
            moved = change(first, last)
            cells.append(number(last) + (f" <small>({text(moved)})</small>" if moved else ""))
        rows.append([link(f"../{group.address}", group.name), text(group.on), *cells])
    caption = f"Of the newest commit; in brackets, since the first of {len(timeline.commits):,} commits"
    return table(caption, ["case", "compiled for", *known], rows, right=range(2, 2 + len(known)))


def _correctness(kernel: str, target: str, records: Sequence[Record]) -> str:
    latest: Mapping[tuple[str, ...], tuple[Record, int]] = {
        (result.engine, result.subject, result.device, result.property_name): (record, place)
        for record in records
        for place, result in enumerate(record.results)
        if kernel in {result.property_name, result.subject} and result.target.split(":")[0] == target
    }
    rows: list[list[str]] = []
    for (engine, subject, device, name), (record, place) in sorted(latest.items()):
        result = record.results[place]
        page_name = "fuzz.html" if engine in {"fuzz", "replay"} else "correctness.html"
        rows.append(
            [
                link(f"../{page_name}", engine),
                text(name),
                text(subject),
                text(device),
                verdict(result.verdict.status),
                f"{result.cases:,}",
                text(record.commit[:12]),
                text(result.verdict.reason[:120]),
            ]
        )
    heads = ["engine", "property", "subject", "device", "verdict", "cases", "at commit", "reason"]
    return table("Latest results of records", heads, rows, right=(5,))
