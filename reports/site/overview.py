"""The first page: today's verdict in one line, what changed, and every series."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from kvproof.reports.history.series import TIME, Timeline
from kvproof.reports.record import Record
from kvproof.reports.site.commit_pages import commit_address
from kvproof.reports.site.kernel_pages import kernel_address
from kvproof.reports.site.markup import change, link, number, page, sparkline, table, text, verdict
from kvproof.reports.site.series_pages import Group
from kvproof.reports.site.steps import steps_table
from kvproof.reports.verdicts.compare import Change
from kvproof.reports.verdicts.regressions import Regression, headline

NEWEST = 10
"""Commits whose steps make today's verdict."""

SPARK = 60
MOST_SERIES = 1200
MOST_STEPS = 100


def overview(
    lines: Sequence[Timeline],
    groups: Mapping[str, Sequence[Group]],
    steps: Mapping[str, Sequence[Regression]],
    records: Sequence[Record],
    made: str,
) -> str:
    """The overview of all targets."""
    parts: list[str] = []
    for line in lines:
        parts.append(_today(line, steps[line.target]))
    if not lines:
        parts.append('<p class="today unknown">Nothing was measured yet: <code>kvproof bench --save</code>.</p>')
    if records:
        last = records[-1]
        counts = Counter(str(result.verdict.status) for result in last.results)
        words = ", ".join(f"{count:,} {status}" for status, count in sorted(counts.items()))
        parts.append(
            f"<p>Newest record: {text(last.started)}, <code>kvproof {text(' '.join(last.command))}</code>: "
            f"{text(words)} ({link('correctness.html', 'correctness')}, {link('fuzz.html', 'fuzzing')}).</p>"
        )
    for line in lines:
        parts += _target(line, groups[line.target], steps[line.target])
    return page("Overview", "\n".join(parts), made=made)


def _today(line: Timeline, steps: Sequence[Regression]) -> str:
    oldest = len(line.commits) - NEWEST
    places = {commit.commit: place for place, commit in enumerate(line.commits)}
    recent = [step for step in steps if places[step.bad.commit] >= oldest]
    words = headline(line, recent, NEWEST)
    word, _, rest = words.partition(":")
    return f'<p class="today {text(word.lower())}">{verdict(word)}:{text(rest)}</p>'


def _target(line: Timeline, groups: Sequence[Group], steps: Sequence[Regression]) -> list[str]:
    parts = [f"<h2>{text(line.target)}: steps</h2>"]
    judged = [step for step in steps if step.change in {Change.SLOWER, Change.FASTER}]
    others = len(steps) - len(judged)
    notes = [f"The newest {MOST_STEPS} of {len(judged):,}."] if len(judged) > MOST_STEPS else []
    if others:
        notes.append(f"{others:,} more are too small to matter, or of a number of which more is neither.")
    if notes:
        parts.append(f'<p class="note">{" ".join(notes)} Each series and commit has all of its own.</p>')
    parts.append(steps_table(judged[:MOST_STEPS]))
    kernels = sorted({group.main.kernel for group in groups})
    links = "".join(f"<li>{link(kernel_address(line.target, kernel), kernel)}</li>" for kernel in kernels)
    parts.append(f"<h2>{text(line.target)}: kernels</h2><ul>{links}</ul>")
    newest = range(max(len(line.commits) - 30, 0), len(line.commits))
    rows = [
        [
            link(commit_address(line, place), line.commits[place].short),
            text(line.commits[place].title[:80]),
            text(line.commits[place].committed),
            f"{len(line.missing.get(place, ())):,}",
        ]
        for place in reversed(newest)
    ]
    parts.append(f"<h2>{text(line.target)}: commits</h2>")
    parts.append(table("The newest commits", ["commit", "title", "committed", "not measured"], rows, right=(3,)))
    parts.append(f"<h2>{text(line.target)}: series</h2>")
    parts.append(_series(line, groups))
    return parts


def _series(line: Timeline, groups: Sequence[Group]) -> str:
    name = f"series-{line.target}"
    rows: list[list[str]] = []
    for group in groups[:MOST_SERIES]:
        main = group.main
        values = [point.value for point in main.points]
        rows.append(
            [
                link(group.address, group.name),
                text(group.on),
                text("time, us" if main.metric == TIME else main.metric),
                number(values[-1]),
                text(change(values[-2], values[-1])) if len(values) > 1 else "",
                str(sum(len(series.steps) for series in group.series)),
                sparkline([float(f"{v:.4g}") for v in values[-SPARK:]]),
            ]
        )
    control = (
        f'<p class="controls"><label for="f-{text(name)}">Show series with</label>'
        f'<input id="f-{text(name)}" type="search" data-filters="{text(name)}" autocomplete="off"> '
        f'<span id="f-{text(name)}-count" role="status"></span></p>'
    )
    heads = ["series", "on", "metric", "latest", "since the run before", "steps", "history"]
    return control + table("Every series", heads, rows, right=(3, 4, 5), name=name)
