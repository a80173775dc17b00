"""Builds the site: a pure function of runs, records and findings, put in place in one step."""

from __future__ import annotations

import importlib.util
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kvproof.reports.environment import utc_now
from kvproof.reports.errors import ReportError
from kvproof.reports.finding import Finding
from kvproof.reports.history.series import Timeline
from kvproof.reports.record import Record
from kvproof.reports.site.commit_pages import commit_address, commit_page, rows_by_commit
from kvproof.reports.site.compare_page import compare_page, parts
from kvproof.reports.site.kernel_pages import kernel_address, kernel_page
from kvproof.reports.site.overview import overview
from kvproof.reports.site.record_pages import correctness_page, fuzz_page
from kvproof.reports.site.series_pages import Group, groups, series_page
from kvproof.reports.verdicts.regressions import Regression, regressions

ASSETS = Path(__file__).parent / "assets"
MARK = "kvproof-site"
"""File by which a folder is known as a site, which may be replaced."""


def chart_library() -> Path:
    """plotly.js, as the installed package of that name ships it.

    Raises:
        ReportError: plotly is not installed.
    """
    found = importlib.util.find_spec("plotly")
    path = Path(found.origin).parent / "package_data" / "plotly.min.js" if found and found.origin else None
    if path is None or not path.is_file():
        raise ReportError(
            "the site needs the chart library that the package plotly ships: pip install 'kvproof[track]'"
        )
    return path


def build_site(
    out: Path,
    lines: Sequence[Timeline],
    records: Sequence[Record] = (),
    findings: Sequence[Finding] = (),
    certificates: Mapping[str, str] | None = None,
) -> int:
    """Write the site; returns how many pages it has.

    A site that is there already is replaced as a whole.

    Raises:
        ReportError: the folder holds something else, or the chart library is not installed.
    """
    library = chart_library()
    if out.exists() and any(out.iterdir()) and not (out / MARK).exists():
        raise ReportError(f"{out} is a folder with other things in it; name a new folder or a former site")
    part = out.with_name(f".{out.name}.{secrets.token_hex(4)}.part")
    count = 0
    try:
        for name in ("assets", "data", "series", "kernels", "commits"):
            (part / name).mkdir(parents=True)
        for address, text in _pages(lines, records, findings, certificates or {}):
            (part / address).write_text(text, encoding="utf-8")
            count += address.endswith(".html")
        for asset in (*sorted(ASSETS.iterdir()), library):
            shutil.copyfile(asset, part / "assets" / asset.name)
        (part / MARK).write_text("A site of kvproof: made anew as a whole.\n", encoding="utf-8")
        if out.exists():
            shutil.rmtree(out)
        part.rename(out)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return count


def _pages(
    lines: Sequence[Timeline],
    records: Sequence[Record],
    findings: Sequence[Finding],
    certificates: Mapping[str, str],
) -> Iterator[tuple[str, str]]:
    made = utc_now()
    by_target = {line.target: groups(line) for line in lines}
    steps = {line.target: regressions(line) for line in lines}
    yield "index.html", overview(lines, by_target, steps, records, made)
    yield "compare.html", compare_page(lines, made)
    yield "correctness.html", correctness_page(records, certificates, made)
    yield "fuzz.html", fuzz_page(records, findings, made)
    for line in lines:
        yield from _of_target(line, by_target[line.target], steps[line.target], records, made)
        for name, text in parts(line):
            yield f"data/{name}.js", text


def _of_target(
    line: Timeline, found: Sequence[Group], steps: Sequence[Regression], records: Sequence[Record], made: str
) -> Iterator[tuple[str, str]]:
    for group in found:
        yield group.address, series_page(group, made)
    by_kernel: dict[str, list[Group]] = {}
    for group in found:
        by_kernel.setdefault(group.main.kernel, []).append(group)
    for kernel, items in by_kernel.items():
        of = [step for step in steps if step.series.kernel == kernel]
        yield kernel_address(line.target, kernel), kernel_page(line, kernel, items, of, records, made)
    rows = rows_by_commit(found)
    by_commit: dict[str, list[Regression]] = {}
    for step in steps:
        by_commit.setdefault(step.bad.commit, []).append(step)
    for place, commit in enumerate(line.commits):
        own = by_commit.get(commit.commit, [])
        yield commit_address(line, place), commit_page(line, place, rows.get(place, []), own, records, made)
