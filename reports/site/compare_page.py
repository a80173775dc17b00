"""The page that sets two commits side by side, and the files of values that it loads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvproof.reports.history.series import TIME, Series, Timeline
from kvproof.reports.site.charts import band
from kvproof.reports.site.markup import embedded, page, script_json, slug, text

PART = 50
"""Commits whose values are one file."""

LARGEST = 1_000_000
COMPARED = (
    TIME,
    "instructions",
    "registers",
    "vgprs",
    "spill instructions",
    "vgpr spills",
    "shared bytes",
    "code bytes",
)


def compared(line: Timeline) -> list[Series]:
    """The series that are compared."""
    return [series for series in line.series if series.metric in COMPARED]


def compare_page(lines: Sequence[Timeline], made: str) -> str:
    """The page; its script fills the table."""
    index = {
        slug(line.target): {
            "commits": [f"{commit.short} {commit.title[:60]}" for commit in line.commits],
            "size": PART,
        }
        for line in lines
    }
    options = "".join(f'<option value="{slug(line.target)}">{text(line.target)}</option>' for line in lines)
    body = f"""
<form class="controls" onsubmit="return false">
<p><label for="target">Target</label> <select id="target">{options}</select></p>
<p><label for="old">Before</label> <select id="old"></select></p>
<p><label for="new">After</label> <select id="new"></select></p>
<p><input type="checkbox" id="all"> <label for="all">also what is the same, or within its noise</label></p>
</form>
<p id="comparison-count" role="status" class="note">This page needs scripts; each commit's own page does not.</p>
<div class="scroll" role="region" tabindex="0" aria-label="Differences of both commits"><table id="comparison">
<caption>What differs most comes first; times in microseconds</caption>
<thead><tr><th scope="col">series</th><th scope="col" class="n">before</th><th scope="col" class="n">after</th>
<th scope="col" class="n">change</th><th scope="col">note</th></tr></thead><tbody></tbody></table></div>
{embedded("compare-index", index) if lines else ""}"""
    return page("Compare commits", body, made=made)


def parts(line: Timeline) -> Iterator[tuple[str, str]]:
    """(name, text) of each file of values."""
    series = compared(line)
    name = slug(line.target)
    labels = [(f"{s.name} on {s.on}, {s.metric}", _noise(s)) for s in series]
    yield f"{name}-names", f'kvproofPart("{name}-names",{script_json(labels)});\n'
    columns: list[list[float | tuple[float, int] | None]] = [[None] * len(series) for _ in line.commits]
    for column, one in enumerate(series):
        # Numbers of compiled code compare whatever the case; what a time was measured with must be the same.
        means = [] if one.exact else list({point.segment for point in one.points})
        numbers = {segment: number for number, segment in enumerate(sorted(means))}
        for point in one.points:
            value = float(f"{point.value:.5g}")
            columns[point.place][column] = (value, numbers[point.segment]) if len(numbers) > 1 else value
    for number, begin in enumerate(range(0, len(columns), PART)):
        part = f"{name}-{number}"
        yield part, f'kvproofPart("{part}",{script_json(columns[begin : begin + PART])});\n'


def _noise(series: Series) -> float:
    """Share within which two runs of a series differ by noise alone, at both ends of its band."""
    found = band(series)
    if found is None:
        return 0.0
    return float(f"{found[1][-1] / found[0][-1] - 1:.3g}")
