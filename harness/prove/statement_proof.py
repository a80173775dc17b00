"""The proof of one statement on one subject: obligations, vacuity checks, the twin, counterexamples."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kvproof.harness.prove.discharge import Group, Solvers, grouped, text_hash
from kvproof.harness.prove.explore import Path, explore
from kvproof.harness.prove.replay import Replayed, case_of, replay_case
from kvproof.harness.prove.shrink import least_model
from kvproof.harness.prove.subject import Subject
from kvproof.harness.solve.query import Answer, Outcome, Query
from kvproof.harness.solve.smtlib import script
from kvproof.harness.symbolic import UnsupportedError
from kvproof.properties.statement import Statement
from kvproof.reports.finding import Finding
from kvproof.reports.result import ASKED
from kvproof.reports.verdict import Status, Verdict


@dataclass(frozen=True)
class Step:
    """One query of a proof and what came of it.

    Attributes:
        path: the path's picks, as text.
        kind: "require", "lemma", "claim", "vacuity" or "twin".
        name: what it shows.
        query: what was asked.
        answers: each solver's answer.
        origin: where the answers came from: FROM_LOCK, ASKED or ALIKE.
        proved: hash of the normalised SMT-LIB text that proves it; "" if it was not to be proved.
    """

    path: str
    kind: str
    name: str
    query: Query
    answers: tuple[Answer, ...]
    origin: str
    proved: str = ""

    @property
    def key(self) -> str:
        """Hash of the normalised SMT-LIB text of the question."""
        return self.proved or text_hash(script(self.query).text)


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
    """Prove a statement for every system of the subject.

    With frozen solvers only that each obligation has a certificate is checked: no vacuity, no twins.
    """
    start = time.perf_counter()
    proof = StatementProof(subject, statement)
    run = _Run(proof, solvers)
    try:
        for path in explore(subject, statement, solvers.feasible):
            run.path(path)
        if not proof.problems:
            if not solvers.frozen:
                run.twins()
            if not run.proved:
                proof.problems.append(run.nothing())
    except UnsupportedError as error:
        proof.problems.append(Verdict(Status.UNSUPPORTED, str(error)))
    proof.paths = len(run.proved)
    proof.seconds = time.perf_counter() - start
    return proof


@dataclass
class _Run:
    proof: StatementProof
    solvers: Solvers
    proved: dict[tuple[int, ...], Path] = field(default_factory=dict[tuple[int, ...], Path])
    queries: set[Query] = field(default_factory=set[Query])
    applies: bool = False
    open_twins: dict[tuple[int, ...], str] = field(default_factory=dict[tuple[int, ...], str])
    _asked: int = 0

    def _problem(self, status: Status, reason: str) -> None:
        self.proof.problems.append(Verdict(status, reason))

    def _step(self, path: Path, kind: str, name: str, query: Query, *answers: Answer, key: str = "") -> None:
        origin = ASKED if self.solvers.asked > self._asked else self.solvers.origin(key)
        self.proof.steps.append(Step(path.label, kind, name, query, answers, origin, key))

    def nothing(self) -> Verdict:
        """What it means that no path was left to prove."""
        reasons = "; ".join(dict.fromkeys(self.proof.vacuous.values()))
        if self.applies:
            return Verdict(Status.UNKNOWN, f"no case satisfies the statement's premises: {reasons}")
        return Verdict(Status.NOT_RUN, f"the statement does not apply: {reasons}")

    def path(self, path: Path) -> None:
        """Discharge one path's obligations, in order."""
        holds = all(self._group(path, group) for group in grouped(path.obligations))
        self.applies |= path.applies
        if path.vacuous:
            self.proof.vacuous[path.label] = path.vacuous
        elif holds:
            self.proved[path.decisions] = path
            self.proof.folded += not path.obligations

    def _group(self, path: Path, group: Group) -> bool:
        self._asked = self.solvers.asked
        reply = self.solvers.prove(group.query, self.proof.subject.samples)
        answers = reply.answers
        self._step(path, group.kind, group.name, group.query, *answers, key=reply.key)
        where = f"{group.name}" + (f" ({path.label})" if path.label else "")
        outcomes = {a.outcome for a in answers}
        if reply.proved:
            self.queries.add(group.query)
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

    def twins(self) -> None:
        """Each proved path has a twin, tightened by one step, that is refuted by values that replay.

        Those values also satisfy the path's own premises, which shows that it is not vacuous.
        """
        refuted: dict[tuple[int, ...], tuple[Query, Answer]] = {}
        for twin in explore(self.proof.subject, self.proof.statement, self.solvers.feasible, slip=1):
            if not twin.vacuous and twin.decisions in self.proved:
                found = self._refute(twin)
                if found:
                    refuted[twin.decisions] = found
        for decisions, path in list(self.proved.items()):
            known = refuted.get(decisions)
            if not self._has_case(path, known):
                del self.proved[decisions]
            elif known is None:
                why = self.open_twins.get(decisions, "the statement may say too little")
                twin, of = self.proof.statement.twin, path.label or "this subject"
                self._problem(Status.UNKNOWN, f"the twin ({twin}) is not refuted for {of}: {why}")

    def _refute(self, twin: Path) -> tuple[Query, Answer] | None:
        for group in grouped(twin.obligations):
            if group.query in self.queries:
                continue
            self._asked = self.solvers.asked
            answer = self.solvers.counterexample(group.query, samples=self.proof.subject.samples)
            if answer.outcome is Outcome.SAT:
                self._step(twin, "twin", group.name, group.query, answer)
                return (group.query, answer) if self._replays(twin, answer, Replayed.FAILS, slip=1) else None
            if answer.outcome is Outcome.UNKNOWN:
                self.open_twins[twin.decisions] = f"{answer.solver}: {answer.reason}"
        return None

    def _has_case(self, path: Path, known: tuple[Query, Answer] | None) -> bool:
        """Whether the premises are satisfiable, by values that the concrete statement accepts."""
        if known is not None and set(path.premises) <= set(known[0].premises):
            answer = known[1]
        else:
            query = Query(path.premises)
            self._asked = self.solvers.asked
            answer = self.solvers.counterexample(query, samples=self.proof.subject.samples)
            self._step(path, "vacuity", "premises", query, answer)
        if answer.outcome is Outcome.UNSAT:
            self.proof.vacuous[path.label] = "the premises contradict each other"
            return False
        if answer.outcome is Outcome.UNKNOWN:
            self._problem(Status.UNKNOWN, f"vacuity of {path.label}: {answer.reason}")
        else:
            self._replays(path, answer, Replayed.HOLDS)
        return True

    def _replays(self, path: Path, answer: Answer, expected: Replayed, slip: int = 0) -> bool:
        """Whether the concrete specification agrees with a model; if not, the prover is at fault."""
        subject, statement = self.proof.subject, self.proof.statement
        replay = replay_case(subject, statement, case_of(subject, path, answer.model), slip)
        if replay.outcome is not expected:
            self._problem(
                Status.FAIL,
                f"prover defect: the statement {replay.outcome} (not {expected}) on the concrete specification "
                f"for {answer.solver}'s values ({path.label}{', twin' * slip}): {replay.message}",
            )
        return replay.outcome is expected
