"""What a run prints at its end: a table of configuration x property, counts, reasons, and how to replay faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rich.console import Console
from rich.markup import escape

from kvproof.harness.cli.tables import STYLES, is_proof, label, print_tables
from kvproof.reports.finding import Finding, canonical_json
from kvproof.reports.record import Record
from kvproof.reports.result import ALIKE, ASKED, FROM_LOCK, Result
from kvproof.reports.verdict import Status

_REASON_LENGTH = 240


def print_summary(record: Record, planned: int, console: Console) -> None:
    """Print a run.

    Args:
        record: the run.
        planned: checks that it was to make.
        console: where to.
    """
    if record.results:
        print_tables(record.results, console)
    _print_counts(record, console)
    _print_reasons(record.results, console)
    _print_assumptions(record.results, console)
    _print_findings(record.results, console)
    _print_where(record, console)
    if not record.complete:
        console.print(
            f"[bold yellow]stopped early: {len(record.results)} of {planned} checks were made[/bold yellow]; "
            "the others are not counted as anything"
        )


def print_replay(finding: Finding, result: Result, console: Console) -> None:
    """Print what became of a finding when its case ran again."""
    state = {Status.PASS: "the fault is gone", Status.FAIL: "the fault is still there"}.get(
        result.verdict.status, "the case could not be run to an answer"
    )
    style = STYLES[result.verdict.status]
    where = f" on {finding.device}" if finding.device else ""
    console.print(f"finding {finding.id}: {escape(finding.property_name)}{where}, {escape(finding.subject)}")
    console.print(f"  states  {escape(finding.words)}")
    console.print(f"  case    {escape(canonical_json(dict(finding.case)))}")
    console.print(f"  then    {escape(finding.message)}")
    for now in result.findings:
        console.print(f"  now     {escape(now.message)}")
        if now.expected or now.got:
            console.print(f"          expected {escape(now.expected)}, got {escape(now.got)}")
    reason = f": {escape(result.verdict.reason)}" if result.verdict.reason else ""
    console.print(f"[{style}]{result.verdict.status}[/] {state}{reason}")


def _print_counts(record: Record, console: Console) -> None:
    for name, results in (
        ("proofs", [r for r in record.results if is_proof(r)]),
        ("fuzzing", [r for r in record.results if not is_proof(r)]),
    ):
        if results:
            counts = Counter(result.verdict.status for result in results)
            each = ", ".join(f"[{STYLES[status]}]{counts[status]} {status}[/]" for status in Status)
            cases, seconds = sum(r.cases for r in results), sum(r.seconds for r in results)
            what = "cases" if name == "fuzzing" else f"queries ({_origins(results)})"
            console.print(f"{name + ':':9}{each}; {cases:,} {what} in {seconds:.1f} s")


def _origins(results: Iterable[Result]) -> str:
    """Where the answers to the queries of proofs came from: if the lock file had them all, none are asked."""
    counts = Counter(dict.fromkeys((FROM_LOCK, ASKED, ALIKE), 0))
    for result in results:
        counts.update({name: result.events.get(name, 0) for name in counts})
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _print_reasons(results: Iterable[Result], console: Console) -> None:
    reasons: dict[tuple[Status, str], list[str]] = {}
    for result in results:
        if result.verdict.status is not Status.PASS:
            where = f"{label(result)} ({result.subject})"
            reasons.setdefault((result.verdict.status, result.verdict.reason), []).append(where)
    for (status, reason), places in sorted(reasons.items(), key=lambda item: list(Status).index(item[0][0])):
        shown = ", ".join(places[:4]) + (f" and {len(places) - 4} more" if len(places) > 4 else "")
        console.print(f"[{STYLES[status]}]{status}[/] {escape(shown)}: {escape(_shortened(reason))}")


def _shortened(reason: str) -> str:
    """A reason of reasonable length; the record has all of it."""
    return reason if len(reason) <= _REASON_LENGTH else f"{reason[:_REASON_LENGTH].rstrip()} ..."


def _print_assumptions(results: Iterable[Result], console: Console) -> None:
    proved = [r for r in results if is_proof(r) and r.verdict.passed]
    assumptions = dict.fromkeys(text for result in proved for text in result.verdict.assumptions)
    for text in assumptions:
        console.print(f"proved under: {escape(text)}")


def _print_findings(results: Iterable[Result], console: Console) -> None:
    findings = {finding.id: finding for result in results for finding in result.findings}
    for finding in findings.values():
        name, subject = escape(finding.property_name), escape(finding.subject)
        console.print(f"\n[bold red]{name}[/] on {subject}: {escape(finding.message)}")
        if finding.expected or finding.got:
            console.print(f"  expected {escape(finding.expected)}, got {escape(finding.got)}")
        console.print(f"  again: kvproof replay {finding.id}")


def _print_where(record: Record, console: Console) -> None:
    for device in record.devices:
        state = "ran" if device.available else "not run"
        console.print(f"device {device.name}: {state}, {escape(device.detail)}")
    versions = ", ".join(
        f"{name} {value}" for name, value in record.versions.items() if value and name != "kvproof"
    )
    seed = "" if record.seed is None else f"seed {record.seed}; "
    commit = record.commit[:12] + ("+dirty" if record.commit.endswith("+dirty") else "")
    console.print(f"kvproof {record.versions.get('kvproof') or '(source tree)'} {commit}; {seed}{versions}")
