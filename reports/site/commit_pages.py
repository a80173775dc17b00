"""A page for each commit: everything that was measured or checked of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvproof.reports.history.series import TIME, Timeline
from kvproof.reports.record import Record
from kvproof.reports.site.markup import change, facts, link, number, page, slug, table, text, verdict
from kvproof.reports.site.series_pages import Group
from kvproof.reports.site.steps import steps_table
from kvproof.reports.verdicts.regressions import Regression

MOST_ROWS = 3000


def commit_address(timeline: Timeline, place: int) -> str:
    """Of a commit's page, from the site's root."""
    return f"commits/{slug(timeline.target)}-{timeline.commits[place].commit[:12]}.html"


Row = tuple[str, str, str, float, float | None]
"""Address, name with device, metric, value, value at the commit measured before."""


def rows_by_commit(groups: Sequence[Group]) -> dict[int, list[Row]]:
    """The main series of every group and whatever else moved, by index of the commit."""
    found: dict[int, list[Row]] = {}
    for group in groups:
        for series in group.series:
            before: float | None = None
            for point in series.points:
                if series is group.main or (before is not None and before != point.value):
                    row = (group.address, f"{group.name} on {group.on}", series.metric, point.value, before)
                    found.setdefault(point.place, []).append(row)
                before = point.value
    return found


def commit_page(
    timeline: Timeline,
    place: int,
    rows: Sequence[Row],
    steps: Sequence[Regression],
    records: Sequence[Record],
    made: str,
) -> str:
    """The page of one commit."""
    commit = timeline.commits[place]
    around = {
        "commit before": place - 1 if place else None,
        "commit after": place + 1 if place + 1 < len(timeline.commits) else None,
    }
    links = {
        words: link(f"../{commit_address(timeline, other)}", timeline.commits[other].short)
        for words, other in around.items()
        if other is not None
    }
    head = facts(
        {
            "target": text(timeline.target),
            "commit": f"<code>{text(commit.commit)}</code>",
            "parent": f"<code>{text(commit.parent)}</code>",
            "committed": text(commit.committed),
            "measured": text("; ".join(timeline.runs.get(place, ()))),
            **links,
        }
    )
    shown = sorted(rows, key=lambda row: -_moved(row))[:MOST_ROWS]
    cells = [
        [
            link(f"../{address}", name),
            text("time, us" if metric == TIME else metric),
            number(value),
            number(before),
            text(change(before, value)) if before is not None else "new",
        ]
        for address, name, metric, value, before in shown
    ]
    heads = ["series", "metric", "value", "before", "change"]
    parts = [head, "<h2>Steps that begin here</h2>", steps_table(steps, depth=1)]
    parts += ["<h2>Measurements</h2>", table("What moved most comes first", heads, cells, right=(2, 3, 4))]
    parts += ["<h2>Checks</h2>", _checks(commit.commit, timeline.target, records)]
    lacking = timeline.missing.get(place, ())
    lines = [[text(m.name), verdict(m.status), text(m.reason)] for m in lacking]
    parts += ["<h2>Not measured</h2>", table("Without a number, and why", ["series", "status", "reason"], lines)]
    return page(f"{commit.short} {commit.title}".strip(), "\n".join(parts), depth=1, made=made)


def _moved(row: Row) -> float:
    _, _, _, value, before = row
    if before is None:
        return -1.0
    return abs(value / before - 1) if before else float(value != 0)


def _checks(commit: str, target: str, records: Sequence[Record]) -> str:
    counts: Mapping[tuple[str, str], int] = {}
    rows: list[list[str]] = []
    for record in records:
        if not commit or record.commit.split("+")[0] != commit.split("+", maxsplit=1)[0]:
            continue
        counts = {}
        for result in record.results:
            if result.target.split(":")[0] == target:
                key = (result.engine, str(result.verdict.status))
                counts = {**counts, key: counts.get(key, 0) + 1}
        rows += [
            [text(record.started), text(" ".join(record.command)), text(engine), verdict(status), f"{count:,}"]
            for (engine, status), count in sorted(counts.items())
        ]
    return table("Records of this commit", ["when", "command", "engine", "verdict", "results"], rows, right=(4,))
