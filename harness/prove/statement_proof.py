"""The proof of one statement on one subject: obligations, vacuity checks, the twin, counterexamples."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kvproof.harness.prove.discharge import Group, Solvers, grouped
from kvproof.harness.prove.explore import Path, explore
from kvproof.harness.prove.replay import Replayed, case_of, replay_case
from kvproof.harness.prove.shrink import least_model
from kvproof.harness.prove.subject import Subject
from kvproof.harness.solve.query import Answer, Outcome, Query
from kvproof.harness.symbolic import UnsupportedError
from kvproof.properties.statement import Statement
from kvproof.reports.finding import Finding
from kvproof.reports.verdict import Status, Verdict


@dataclass(frozen=True)
class Step:
    """One query of a proof and what came of it.

    Attributes:
        path: the path's picks, as text.
        kind: "require", "lemma", "claim", "vacuity" or "twin".
        name: what it shows.
        query: the question.
        answers: each solver's answer.
    """

    path: str
    kind: str
    name: str
    query: Query
    answers: tuple[Answer, ...]


@dataclass
class StatementProof:
    """A statement's proof on a subject.

    Attributes:
        subject, statement: what was proved of what.
        steps: every query, in order.
        folded: paths whose obligations all held by construction, without a query.
        vacuous: paths outside the statement, with the reason.
        problems: what is wrong, worst first by :class:`Status`; empty means proved.
        findings: counterexamples, shrunk.
        seconds: wall time.
    """

    subject: Subject
    statement: Statement
    steps: list[Step] = field(default_factory=list[Step])
    folded: int = 0
    vacuous: dict[str, str] = field(default_factory=dict[str, str])
    problems: list[Verdict] = field(default_factory=list[Verdict])
    findings: list[Finding] = field(default_factory=list[Finding])
    paths: int = 0
    seconds: float = 0.0


def prove_statement(subject: Subject, statement: Statement, solvers: Solvers) -> StatementProof:
    """Prove a statement for every system of the subject."""
    start = time.perf_counter()
    proof = StatementProof(subject, statement)
    run = _Run(proof, solvers)
    try:
        for path in explore(subject, statement, solvers.feasible):
            run.path(path)
        if not proof.paths:
            proof.problems.append(Verdict(Status.UNKNOWN, "no case of the statement exists on this subject"))
        run.twin()
    except UnsupportedError as error:
        proof.problems.append(Verdict(Status.UNSUPPORTED, str(error)))
    proof.seconds = time.perf_counter() - start
    return proof


@dataclass
class _Run:
    proof: StatementProof
    solvers: Solvers

    def _problem(self, status: Status, reason: str) -> None:
        self.proof.problems.append(Verdict(status, reason))

    def _step(self, path: Path, kind: str, name: str, query: Query, answers: list[Answer]) -> None:
        self.proof.steps.append(Step(path.label, kind, name, query, tuple(answers)))

    def path(self, path: Path) -> None:
        """Discharge one path: its obligations in order, then that its premises are not contradictory."""
        if path.vacuous:
            self.proof.vacuous[path.label] = path.vacuous
            return
        self.proof.paths += 1
        for group in grouped(path.obligations):
            if not self._group(path, group):
                return
        if not path.obligations:
            self.proof.folded += 1
        self._vacuity(path)

    def _group(self, path: Path, group: Group) -> bool:
        answers = self.solvers.all(group.query)
        self._step(path, group.kind, group.name, group.query, answers)
        where = f"{group.name}" + (f" ({path.label})" if path.label else "")
        outcomes = {a.outcome for a in answers}
        if outcomes == {Outcome.UNSAT}:
            return True
        for answer in answers:
            if answer.outcome is Outcome.SAT:
                self._counterexample(path, group, answer)
        if Outcome.SAT in outcomes and Outcome.UNSAT in outcomes:
            told = ", ".join(f"{a.solver}: {a.outcome}" for a in answers)
            self._problem(Status.FAIL, f"solvers disagree on {where}: {told}")
        if Outcome.SAT not in outcomes:
            told = "; ".join(f"{a.solver}: {a.reason}" for a in answers if a.outcome is Outcome.UNKNOWN)
            self._problem(Status.UNKNOWN, f"{where}: {told}")
        return False

    def _counterexample(self, path: Path, group: Group, answer: Answer) -> None:
        if any(f.case.get("path") == path.label for f in self.proof.findings):
            return  # one of each path will do, whichever solver came first
        subject, statement = self.proof.subject, self.proof.statement
        shown = least_model(group.query, answer.model, path.names, self.solvers)
        replay = replay_case(subject, statement, case_of(subject, path, shown))
        if replay.outcome is not Replayed.FAILS:
            shown = answer.model
            replay = replay_case(subject, statement, case_of(subject, path, shown))
        broken = group.broken({name: shown.get(name, 0) for name in path.names})
        what = broken.name if broken else group.name
        if replay.outcome is not Replayed.FAILS:
            self._problem(
                Status.FAIL,
                f"prover defect: {answer.solver}'s counterexample to {what} ({path.label}) {replay.outcome} "
                f"on the concrete specification {replay.message}".rstrip(),
            )
            return
        case: Mapping[str, Any] = {
            **case_of(subject, path, shown),
            **subject.describe,
            "slip": 0,
            "path": path.label,
            "obligation": what,
        }
        self.proof.findings.append(
            Finding("proof", statement.name, statement.words, subject.name, case, replay.message)
        )
        self._problem(Status.FAIL, f"{what}: {replay.message}")

    def _vacuity(self, path: Path) -> None:
        """The premises alone are satisfiable, by values that the concrete statement accepts."""
        query = Query(path.premises)
        answer = self.solvers.ask(query)
        self._step(path, "vacuity", "premises", query, [answer])
        if answer.outcome is Outcome.UNSAT:
            self.proof.paths -= 1
            self.proof.vacuous[path.label] = "the premises contradict each other"
        elif answer.outcome is Outcome.UNKNOWN:
            self._problem(Status.UNKNOWN, f"vacuity of {path.label}: {answer.reason}")
        else:
            subject, statement = self.proof.subject, self.proof.statement
            replay = replay_case(subject, statement, case_of(subject, path, answer.model))
            if replay.outcome is not Replayed.HOLDS:
                reason = f"prover defect: values that satisfy the premises ({path.label}) {replay.outcome} on the "
                self._problem(Status.FAIL, f"{reason}concrete specification: {replay.message}")

    def twin(self) -> None:
        """The statement tightened by one step is refuted on every path, by values that replay."""
        if self.proof.problems:
            return
        for path in explore(self.proof.subject, self.proof.statement, self.solvers.feasible, slip=1):
            if not path.vacuous and path.label not in self.proof.vacuous and not self._refuted(path):
                self._problem(
                    Status.UNKNOWN,
                    f"the twin ({self.proof.statement.twin}) is not refuted for {path.label or 'this subject'}: "
                    "the statement may say too little",
                )

    def _refuted(self, path: Path) -> bool:
        subject, statement = self.proof.subject, self.proof.statement
        for group in grouped(path.obligations):
            answer = self.solvers.ask(group.query)
            if answer.outcome is Outcome.SAT:
                self._step(path, "twin", group.name, group.query, [answer])
                replay = replay_case(subject, statement, case_of(subject, path, answer.model), slip=1)
                return replay.outcome is Replayed.FAILS
        return False
