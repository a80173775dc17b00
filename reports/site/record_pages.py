"""The correctness page and the fuzz page: what the newest records say, and every finding with its replay."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence

from kvproof.reports.finding import Finding
from kvproof.reports.record import Record
from kvproof.reports.result import Result
from kvproof.reports.site.markup import facts, link, page, table, text, verdict
from kvproof.reports.verdict import Status

PROVING = ("prove", "enumerate")
MOST_REASONS = 300


def latest_results(records: Sequence[Record], engines: Sequence[str]) -> list[tuple[Record, Result]]:
    """Of each property, subject, device and target, the newest result of these engines."""
    found: dict[tuple[str, ...], tuple[Record, Result]] = {}
    for record in records:
        for result in record.results:
            if result.engine in engines:
                key = (result.engine, result.property_name, result.subject, result.device, result.target)
                found[key] = (record, result)
    return list(found.values())


def correctness_page(records: Sequence[Record], certificates: Mapping[str, str], made: str) -> str:
    """Proof status by layout and property, certificates, solvers, and everything that is not PASS."""
    known = latest_results(records, PROVING)
    results = [result for _, result in known]
    counts = Counter(str(result.verdict.status) for result in results)
    solvers = Counter(a for r in results for a in r.verdict.assumptions if "proved by" in a or "solver" in a)
    newest = max((record.started for record, _ in known), default="")
    head = facts(
        {
            "results": text(
                ", ".join(f"{count:,} {status}" for status, count in sorted(counts.items())) or "none"
            ),
            "queries": f"{sum(result.cases for result in results):,}",
            "newest record": text(newest),
            "solvers": text("; ".join(f"{words} ({count:,} results)" for words, count in solvers.most_common())),
            **{name: text(value) for name, value in certificates.items()},
        }
    )
    layouts = [result for result in results if not result.device]
    kernels = [result for result in results if result.device]
    parts = [head, "<h2>By property and subject</h2>", _matrix(layouts)]
    parts += ["<h2>Compiled kernels</h2>", _kernels(kernels)]
    parts += ["<h2>Everything that is not PASS</h2>", _open(results)]
    return page("Correctness", "\n".join(parts), made=made)


def _matrix(results: Sequence[Result]) -> str:
    subjects = list(dict.fromkeys(result.subject for result in results))
    rows: dict[str, dict[str, Result]] = {}
    for result in results:
        rows.setdefault(result.property_name, {})[result.subject] = result
    cells = [
        [text(name), *(verdict(found[s].verdict.status) if s in found else "" for s in subjects)]
        for name, found in sorted(rows.items())
    ]
    return table("Latest verdict of each property on each subject", ["property", *subjects], cells)


def _kernels(results: Sequence[Result]) -> str:
    """What is proved of each kernel as compiled for each GPU."""
    properties = list(dict.fromkeys(result.property_name for result in results))
    rows: dict[tuple[str, str], dict[str, Result]] = {}
    for result in results:
        rows.setdefault((result.subject, result.device), {})[result.property_name] = result
    cells = [
        [
            text(kernel),
            text(device),
            *(verdict(found[name].verdict.status) if name in found else "" for name in properties),
            f"{sum(result.cases for result in found.values()):,}",
        ]
        for (kernel, device), found in sorted(rows.items())
    ]
    heads = ["kernel", "compiled for", *properties, "questions"]
    return table(
        "Latest verdict of each property, for all sizes and contents", heads, cells, right=(len(heads) - 1,)
    )


def _open(results: Sequence[Result]) -> str:
    rows = [
        [
            verdict(result.verdict.status),
            text(result.engine),
            text(result.property_name),
            text(result.subject),
            text(result.device),
            text(result.verdict.reason[:MOST_REASONS]),
        ]
        for result in results
        if result.verdict.status is not Status.PASS
    ]
    heads = ["verdict", "engine", "property", "subject", "device", "reason"]
    return table("What failed, is undecided, unsupported or was not run", heads, rows)


def fuzz_page(records: Sequence[Record], findings: Sequence[Finding], made: str) -> str:
    """Cases and events of the newest results, and every finding with the command that replays it."""
    results = [result for _, result in latest_results(records, ("fuzz", "replay"))]
    counts = Counter(str(result.verdict.status) for result in results)
    head = facts(
        {
            "results": text(
                ", ".join(f"{count:,} {status}" for status, count in sorted(counts.items())) or "none"
            ),
            "cases": f"{sum(result.cases for result in results):,}",
            "findings": f"{len(findings):,}",
        }
    )
    shown = [
        [
            f'<a href="#f-{text(finding.id)}">{text(finding.id)}</a>',
            text(finding.property_name),
            text(finding.subject),
            text(finding.target),
            text(finding.device),
            text(finding.message[:160]),
        ]
        for finding in findings
    ]
    heads = ["finding", "property", "subject", "target", "device", "what"]
    parts = [head, "<h2>Findings</h2>", table("Shrunk faults", heads, shown)]
    parts += [_finding(finding) for finding in findings]
    rows = [
        [
            verdict(result.verdict.status),
            text(result.property_name),
            text(result.subject),
            text(result.device),
            text(result.target),
            f"{result.cases:,}",
            f"{result.seconds:.1f}",
            text(", ".join(f"{name} {count:,}" for name, count in sorted(result.events.items()))),
        ]
        for result in results
    ]
    heads = ["verdict", "property", "subject", "device", "target", "cases", "seconds", "events"]
    parts += ["<h2>Results</h2>", table("Latest result of each property", heads, rows, right=(5, 6))]
    parts += ["<h2>Everything that is not PASS</h2>", _open(results)]
    return page("Fuzzing", "\n".join(parts), made=made)


def _finding(finding: Finding) -> str:
    command = shlex.join(["kvproof", "replay", finding.id])
    return (
        f'<section id="f-{text(finding.id)}"><h3>{text(finding.id)}: {text(finding.property_name)}</h3>'
        f"<p>{text(finding.message)}</p><pre>{text(command)}</pre>"
        + facts(
            {
                "expected": text(finding.expected[:500]),
                "got": text(finding.got[:500]),
                "words": text(finding.words),
            }
        )
        + f"<p>{link('#main', 'Back to the top')}</p></section>"
    )
