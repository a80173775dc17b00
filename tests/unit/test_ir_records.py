"""What a check of compiled kernels leaves in the store, and what the site shows of it."""

from __future__ import annotations

import re

from kvproof.harness.cli.ir_records import results_of
from kvproof.harness.prove.kernels.rows import Row
from kvproof.reports.record import Record
from kvproof.reports.site.record_pages import correctness_page
from kvproof.reports.verdict import Status


def row(target: str, prop: str, status: str, setting: str, questions: int) -> Row:
    reason = "" if status == "PASS" else "a counterexample"
    return Row("row_scatter", target, prop, status, reason, (), (), questions, 0.5, (), setting)


def test_settings_of_a_property_become_one_result() -> None:
    rows = [
        row("cuda:90", "in bounds", "PASS", "a", 3),
        row("cuda:90", "in bounds", "FAIL", "b", 4),
        row("hip:gfx942", "in bounds", "PASS", "a", 5),
        row("cuda:90", "one writer", "PASS", "a", 6),
    ]
    results = results_of(rows)
    assert [(r.property_name, r.device, r.verdict.status, r.cases) for r in results] == [
        ("in bounds", "cuda:90", Status.FAIL, 7),
        ("in bounds", "hip:gfx942", Status.PASS, 5),
        ("one writer", "cuda:90", Status.PASS, 6),
    ]
    assert {(r.subject, r.engine, r.target) for r in results} == {("row_scatter", "prove", "builtin")}
    page = correctness_page([Record("2026-08-11T09:30:00Z", ("ir", "check"), results, 1.0)], {}, "today")
    table = page[page.index("Compiled kernels") :]
    cells = re.findall(r"<td[^>]*>(?:<[^>]+>)?([^<]*)", table[: table.index("</table>")])
    assert cells[:5] == ["row_scatter", "cuda:90", "FAIL", "PASS", "13"]
    assert cells[5:] == ["row_scatter", "hip:gfx942", "PASS", "", "5"]
