"""The table that a run ends with: configuration x property, in one of two forms.

Few subjects get a row for each of their properties. Many would make hundreds of rows of PASS; then a property is
one row, and its proofs are a string with one letter a subject.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kvproof.reports.result import Result
from kvproof.reports.verdict import Status, combine

STYLES = {
    Status.PASS: "green",
    Status.FAIL: "bold red",
    Status.UNKNOWN: "yellow",
    Status.UNSUPPORTED: "magenta",
    Status.NOT_RUN: "dim",
}

_LETTERS = {
    Status.PASS: "P",
    Status.FAIL: "F",
    Status.UNKNOWN: "U",
    Status.UNSUPPORTED: "S",
    Status.NOT_RUN: "N",
}

LONG_FORM_UP_TO = 3
"""Subjects that still get a row for each of their properties."""

PROOF_ENGINES = frozenset({"prove", "enumerate"})


def label(result: Result) -> str:
    """The property, and the device where one matters."""
    return f"{result.property_name} on {result.device}" if result.device else result.property_name


def is_proof(result: Result) -> bool:
    """Whether a solver or an enumeration gave it, rather than drawn cases."""
    return result.engine in PROOF_ENGINES


def print_tables(results: Sequence[Result], console: Console) -> None:
    """Print the results."""
    proved = {result.subject for result in results if is_proof(result)}
    if len(proved) <= LONG_FORM_UP_TO:
        console.print(_long(results))
        return
    for group in _groups(results):
        _print_group(group, console)


def _long(results: Sequence[Result]) -> Table:
    subjects: dict[str, dict[str, list[Result]]] = {}
    for result in results:
        subjects.setdefault(result.subject, {}).setdefault(label(result), []).append(result)
    table = _table(["configuration", "property", "proof", "fuzz"], ["queries", "cases", "time"])
    for subject, rows in subjects.items():
        for place, (name, found) in enumerate(rows.items()):
            proofs, runs = _halves(found)
            table.add_row(
                "" if place else subject,
                escape(name),
                _status(proofs),
                _status(runs),
                _cases(proofs),
                _cases(runs),
                _seconds(found),
            )
        table.add_section()
    return table


@dataclass
class _Group:
    """Properties that are proved of the same subjects.

    Attributes:
        subjects: those subjects, in order; empty for properties that are only fuzzed.
        rows: results of each property by label.
    """

    subjects: list[str] = field(default_factory=list[str])
    rows: dict[str, list[Result]] = field(default_factory=dict[str, list[Result]])

    @property
    def sources(self) -> list[str]:
        """What its drawn cases were drawn from."""
        return list(dict.fromkeys(r.subject for found in self.rows.values() for r in found if not is_proof(r)))


def _groups(results: Iterable[Result]) -> Iterator[_Group]:
    rows: dict[str, list[Result]] = {}
    for result in results:
        rows.setdefault(label(result), []).append(result)
    groups: dict[str, _Group] = {}
    for name, found in rows.items():
        subjects = [result.subject for result in found if is_proof(result)]
        # By the first subject: an interrupted run has met only some of the others.
        group = groups.setdefault(subjects[0] if subjects else "", _Group())
        group.subjects += [subject for subject in subjects if subject not in group.subjects]
        group.rows[name] = found
    # What is only fuzzed comes last.
    yield from sorted(groups.values(), key=lambda group: not group.subjects)


def _print_group(group: _Group, console: Console) -> None:
    if group.subjects:
        numbered = ", ".join(f"{number} {name}" for number, name in enumerate(group.subjects, 1))
        letters = ", ".join(f"{letter} {status}" for status, letter in _LETTERS.items())
        console.print(f"\nproofs, one letter each ({letters}, a dot where there is none) for: {escape(numbered)}")
    proof = ["proof", "queries"] if group.subjects else []
    fuzz = ["cases"] if group.sources else []
    table = _table(["property", *proof[:1]], [*proof[1:], *group.sources, *fuzz, "time"])
    for name, found in group.rows.items():
        proofs, runs = _halves(found)
        cells = [escape(name)]
        if group.subjects:
            cells += [_letters(group.subjects, proofs), _cases(proofs)]
        cells += [_status([run for run in runs if run.subject == source]) for source in group.sources]
        cells += [_cases(runs)] if group.sources else []
        table.add_row(*cells, _seconds(found))
    console.print(table)


def _letters(subjects: Sequence[str], proofs: Sequence[Result]) -> str:
    """One letter a subject, a dot where there is no result."""
    found = {result.subject: result.verdict.status for result in proofs}
    return "".join(
        f"[{STYLES[found[subject]]}]{_LETTERS[found[subject]]}[/]" if subject in found else "."
        for subject in subjects
    )


def _table(left: Sequence[str], right: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right")
    return table


def _halves(results: Sequence[Result]) -> tuple[list[Result], list[Result]]:
    return [r for r in results if is_proof(r)], [r for r in results if not is_proof(r)]


def _status(results: Sequence[Result]) -> str:
    if not results:
        return ""
    status = combine(result.verdict for result in results).status
    return f"[{STYLES[status]}]{status}[/]"


def _cases(results: Sequence[Result]) -> str:
    return f"{sum(result.cases for result in results):,}" if results else ""


def _seconds(results: Sequence[Result]) -> str:
    return f"{sum(result.seconds for result in results):.2f} s"
