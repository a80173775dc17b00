"""What a check of compiled kernels leaves in the store: a record like that of any other campaign."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from kvproof.harness.prove.kernels.rows import Row
from kvproof.reports import environment
from kvproof.reports.record import Record
from kvproof.reports.result import Result
from kvproof.reports.store import Store
from kvproof.reports.verdict import combine


def results_of(rows: Sequence[Row]) -> tuple[Result, ...]:
    """One result a property of a kernel and GPU, whatever its settings."""
    grouped: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        grouped.setdefault((row.kernel, row.target, row.prop), []).append(row)
    return tuple(
        Result(
            kernel,
            prop,
            "prove",
            combine(row.verdict for row in of),
            sum(row.seconds for row in of),
            sum(row.questions for row in of),
            device=target,
        )
        for (kernel, target, prop), of in grouped.items()
    )


def keep_record(rows: Sequence[Row], command: tuple[str, ...], started: str, seconds: float) -> None:
    """Append the record. The store is a help: if it cannot be written, that costs a line, not the check."""
    record = Record(
        started,
        command,
        results_of(rows),
        seconds,
        commit=environment.commit(),
        machine=environment.machine(),
        versions=environment.versions(),
    )
    store = Store()
    try:
        store.append_record(record)
    except OSError as error:
        typer.echo(f"kvproof: nothing was kept in {store.root}: {error.strerror}", err=True)
