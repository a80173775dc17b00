"""Every statement on every subject of its system: the rows of the table that ``kvproof prove`` prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from kvproof.harness.prove.discharge import Solvers
from kvproof.harness.prove.statement_proof import StatementProof, prove_statement
from kvproof.harness.prove.subject import CONFIG_SYSTEMS, Subject, config_subject
from kvproof.harness.solve.backends import SolverAbsentError, backend
from kvproof.harness.solve.query import Budget
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.properties.statement import Statement, all_statements
from kvproof.reports.result import Result
from kvproof.reports.verdict import Status, Verdict, combine

Progress = Callable[[Result], None]

ASSUMPTIONS = ("index arithmetic on mathematical integers",)


def prove(
    subjects: Sequence[ModelConfig | Subject],
    *,
    statements: Sequence[str] | None = None,
    solvers: Sequence[str] = ("z3",),
    budget: Budget | None = None,
    on_progress: Progress | None = None,
) -> Iterator[Result]:
    """Prove statements of the systems that they speak of.

    Args:
        subjects: configurations, whose row space and pool are meant at every capacity, or subjects of any system.
        statements: names of statements; by default all. A subject's system has some of them.
        solvers: names of solvers; each has to prove each obligation.
        budget: what one query may cost a solver.
        on_progress: called with each result as soon as it is there.

    Yields:
        One result a subject and statement of its system.

    Raises:
        ValueError: an unknown statement or solver.
    """
    pairs = pairs_of(subjects, statements)
    try:
        opened = Solvers([backend(name) for name in solvers], budget or Budget())
    except SolverAbsentError as error:
        for subject, statement in pairs:
            yield Result(subject.name, statement.name, "prove", Verdict(Status.NOT_RUN, str(error)), 0.0)
        return
    for subject, statement in pairs:
        result = result_of(prove_statement(subject, statement, opened))
        if on_progress:
            on_progress(result)
        yield result


def pairs_of(
    subjects: Sequence[ModelConfig | Subject], statements: Sequence[str] | None = None
) -> list[tuple[Subject, Statement]]:
    """Each subject with each statement of its system that is wanted.

    Raises:
        ValueError: an unknown statement.
    """
    for name in statements or ():
        named(name)
    return [
        (subject, statement)
        for item in subjects
        for subject in subjects_of(item)
        for name, statement in all_statements(subject.system).items()
        if (statements is None or name in statements)
        and (subject.statements is None or name in subject.statements)
    ]


def subjects_of(item: ModelConfig | Subject) -> list[Subject]:
    """The systems that a configuration has, or a subject alone."""
    if isinstance(item, Subject):
        return [item]
    return [config_subject(item, system) for system in CONFIG_SYSTEMS]


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
        events=Counter(step.origin for step in proof.steps),
        findings=tuple(proof.findings),
    )
