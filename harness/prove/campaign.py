"""Every statement on every configuration: the rows of the table that ``kvproof prove`` prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from kvproof.harness.prove.discharge import Solvers
from kvproof.harness.prove.statement_proof import StatementProof, prove_statement
from kvproof.harness.prove.subject import Subject, config_subject
from kvproof.harness.solve.backends import SolverAbsentError, backend
from kvproof.harness.solve.query import Budget
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.properties.statement import Statement, all_statements
from kvproof.reports.result import Result
from kvproof.reports.verdict import Status, Verdict, combine

Progress = Callable[[Result], None]

ASSUMPTIONS = ("index arithmetic on mathematical integers",)


def prove(
    subjects: Sequence[ModelConfig],
    *,
    statements: Sequence[str] | None = None,
    solvers: Sequence[str] = ("z3",),
    budget: Budget | None = None,
    on_progress: Progress | None = None,
) -> Iterator[Result]:
    """Prove statements about the row space of configurations, for every capacity.

    Args:
        subjects: configurations.
        statements: names of statements; by default all.
        solvers: names of solvers; each has to prove each obligation.
        budget: what one query may cost a solver.
        on_progress: called with each result as soon as it is there.

    Yields:
        One result a configuration and statement.

    Raises:
        ValueError: an unknown statement or solver.
    """
    registered = all_statements("row-space")
    chosen = [named(name, registered) for name in (registered if statements is None else statements)]
    try:
        opened = Solvers([backend(name) for name in solvers], budget or Budget())
    except SolverAbsentError as error:
        for config in subjects:
            for statement in chosen:
                yield Result(config.name, statement.name, "prove", Verdict(Status.NOT_RUN, str(error)), 0.0)
        return
    for config in subjects:
        subject = config_subject(config)
        for statement in chosen:
            result = result_of(prove_statement(subject, statement, opened))
            if on_progress:
                on_progress(result)
            yield result


def named(name: str, registered: Mapping[str, Statement] | None = None) -> Statement:
    """A statement by name.

    Raises:
        ValueError: there is none.
    """
    known = all_statements() if registered is None else registered
    if name not in known:
        raise ValueError(f"statement is {name!r}; allowed: {', '.join(known)}")
    return known[name]


def result_of(proof: StatementProof) -> Result:
    """A proof as a row of the table."""
    passed = Verdict(Status.PASS, assumptions=(*ASSUMPTIONS, *proof.subject.assumptions))
    return Result(
        subject=proof.subject.name,
        property_name=proof.statement.name,
        engine="prove",
        verdict=combine(proof.problems) if proof.problems else passed,
        seconds=proof.seconds,
        cases=len(proof.steps),
        findings=tuple(proof.findings),
    )


__all__ = ["Progress", "Subject", "named", "prove", "result_of"]
