"""Proving with a lock file: only what has changed is asked again, on all cores."""

from __future__ import annotations

import json
import os
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from kvproof.harness.prove.campaign import named, result_of
from kvproof.harness.prove.certificates import Certificate, Lock, ProofRecord, load_lock, save_lock
from kvproof.harness.prove.discharge import Solvers
from kvproof.harness.prove.fingerprint import fingerprint
from kvproof.harness.prove.pool import Lost, News, Pool, Say, Task, Work
from kvproof.harness.prove.statement_proof import StatementProof, prove_statement
from kvproof.harness.prove.subject import Subject
from kvproof.harness.prove.systems import described_subject
from kvproof.harness.solve.backends import backend
from kvproof.harness.solve.query import Budget
from kvproof.properties.statement import Statement
from kvproof.reports.finding import canonical_json
from kvproof.reports.result import FROM_LOCK, Result
from kvproof.reports.verdict import Status, Verdict

Pair = tuple[Subject, Statement]


@dataclass(frozen=True)
class Proved:
    """What became of one statement on one subject.

    Attributes:
        result: the row of the table.
        record: what the lock file keeps of it.
        certificates: those that it rests on.
        asked: queries that went to a solver; 0 if the lock file had them all.
    """

    result: Result
    record: ProofRecord
    certificates: Mapping[str, Certificate]
    asked: int


@dataclass(frozen=True)
class Setting:
    """How to prove.

    Attributes:
        solvers: names; the first one finds counterexamples and cores.
        budget: of one query.
        statement_seconds: what all queries of one statement on one subject may take together.
        jobs: worker processes, which are watched; 0 proves in this process, where the budgets have to do.
        patience: seconds after which a worker that is still at the same question counts as stuck; more than the
            budget of one.
        everything: ask again what the lock file has.
        shuffle: seed of the order of assertions.
    """

    solvers: tuple[str, ...] = ("z3", "cvc5")
    budget: Budget = field(default_factory=Budget)
    statement_seconds: float = 240.0
    jobs: int = 0
    patience: float = 150.0
    everything: bool = False
    shuffle: int | None = None

    def versions(self) -> dict[str, str]:
        """Version of each solver.

        Raises:
            SolverAbsentError: one is not installed.
        """
        return {name: backend(name).version for name in self.solvers}


def default_jobs() -> int:
    """As many workers as this process may use cores."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def prove_locked(
    pairs: Sequence[Pair], lock: Lock, setting: Setting, on_wait: Say | None = None
) -> Iterator[Proved]:
    """Prove what the lock file does not have as proved.

    Args:
        pairs: subjects with statements, each subject's together.
        lock: what has been proved so far. It is not changed; :func:`updated` makes the new one.
        setting: how.
        on_wait: told again and again what is being asked.

    Yields:
        What became of each pair, in the order in which they end.

    Raises:
        SolverAbsentError: a solver is not installed.
    """
    versions = setting.versions()
    known = Lock() if setting.everything else lock.kept_for(versions)
    waiting: list[Pair] = []
    for subject, statement in pairs:
        inputs = inputs_of(subject, statement, versions, setting)
        record = known.proofs.get((subject.name, statement.name))
        if record is not None and record.inputs == inputs and record.verdict == Status.PASS:
            yield _unchanged(subject, statement, record)
        else:
            waiting.append((subject, statement))
    if setting.jobs and waiting:
        yield from _prove_in_workers(waiting, Lock(dict(versions), dict(known.certificates)), setting, on_wait)
        return
    solvers = _open(setting, known.certificates, on_wait)
    for subject, statement in waiting:
        solvers.begin(f"{statement.name} of {subject.name}", setting.statement_seconds)
        yield prove_pair(subject, statement, solvers, inputs_of(subject, statement, versions, setting))


def _prove_in_workers(
    pairs: Sequence[Pair], known: Lock, setting: Setting, on_wait: Say | None
) -> Iterator[Proved]:
    # Those with more free sizes take longer: begun first, so that no core idles at the end.
    ordered = sorted(pairs, key=lambda pair: -len(pair[0].sizes))
    tasks = [
        Task(place, f"{s.system}: {canonical_json(s.describe)}", (s.system, dict(s.describe), statement.name))
        for place, (s, statement) in enumerate(ordered)
    ]
    with tempfile.TemporaryDirectory(prefix="kvproof-") as folder:
        certificates = Path(folder) / "certificates"
        save_lock(certificates, known)
        pool = Pool(
            _start_worker, (setting, certificates), setting.jobs, patience=setting.patience, on_wait=on_wait
        )
        for task, answer in pool.run(tasks):
            subject, statement = ordered[task.place]
            inputs = inputs_of(subject, statement, known.solvers, setting)
            yield _undecided(subject, statement, answer.reason, inputs) if isinstance(answer, Lost) else answer


def _undecided(subject: Subject, statement: Statement, reason: str, inputs: str) -> Proved:
    """What is left of a proof that was lost."""
    verdict = Verdict(Status.UNKNOWN, reason)
    result = Result(subject.name, statement.name, "prove", verdict, 0.0)
    return Proved(result, ProofRecord(inputs, verdict.status.value, (), 0, ()), {}, 0)


def inputs_of(subject: Subject, statement: Statement, versions: Mapping[str, str], setting: Setting) -> str:
    """Fingerprint of all that the proof depends on."""
    return fingerprint(subject.name, subject.describe, statement.name, versions, setting.budget)


def _unchanged(subject: Subject, statement: Statement, record: ProofRecord) -> Proved:
    verdict = Verdict(Status.PASS, assumptions=record.assumptions)
    events = {FROM_LOCK: record.queries}
    result = Result(subject.name, statement.name, "prove", verdict, 0.0, cases=record.queries, events=events)
    return Proved(result, record, {}, 0)


def prove_pair(subject: Subject, statement: Statement, solvers: Solvers, inputs: str) -> Proved:
    """Prove one statement on one subject, with the certificates that the solvers start from."""
    asked = solvers.asked
    proof = prove_statement(subject, statement, solvers)
    result = result_of(proof)
    if result.verdict.passed:
        by = " and ".join(f"{b.name} {b.version}" for b in solvers.backends)
        result = replace(result, verdict=result.verdict.under(f"each obligation proved by {by}"))
    lines = obligation_lines(proof)
    status = result.verdict.status.value
    record = ProofRecord(inputs, status, result.verdict.assumptions, len(proof.steps), lines)
    keys = {step.proved for step in proof.steps}
    used = {key: certificate for key, certificate in solvers.fresh.items() if key in keys}
    return Proved(result, record, used, solvers.asked - asked)


def obligation_lines(proof: StatementProof) -> tuple[str, ...]:
    """One line an obligation: kind, name, path and the hash of its text.

    Vacuity checks and twins are left out: their answers are cases, which are found again and replayed each time.
    """
    steps = [step for step in proof.steps if step.kind not in {"vacuity", "twin"}]
    return tuple(f"{step.kind}: {step.name} [{step.path}] {step.key}" for step in steps)


def updated(lock: Lock, versions: Mapping[str, str], proved: Sequence[Proved]) -> Lock:
    """The lock file after a run: what was proved now replaces what it said of the same subjects and statements."""
    kept = lock.kept_for(versions)
    certificates = dict(kept.certificates)
    proofs = dict(kept.proofs)
    for item in proved:
        certificates.update(item.certificates)
        proofs[item.result.subject, item.result.property_name] = item.record
    return Lock(dict(versions), certificates, proofs).without_unused()


def stale(pairs: Sequence[Pair], lock: Lock, setting: Setting) -> Iterator[Result]:
    """Whether the lock file proves everything as it is now, without asking a solver.

    Yields:
        For each pair PASS; FAIL if its obligations are not those that were proved; or the verdict that was locked.
    """
    versions = setting.versions()
    known = lock.kept_for(versions)
    frozen = replace(_open(setting, known.certificates), frozen=True)
    for subject, statement in pairs:
        record = known.proofs.get((subject.name, statement.name))
        begun = time.perf_counter()
        if record is None:
            verdict = Verdict(Status.FAIL, "the lock file has no proof of it; run kvproof prove")
        elif record.verdict != Status.PASS:
            verdict = Verdict(Status.FAIL, f"the lock file has it as {record.verdict}; run kvproof prove")
        elif record.inputs == inputs_of(subject, statement, versions, setting):
            verdict = Verdict(Status.PASS, assumptions=record.assumptions)
        else:
            verdict = _compared(prove_statement(subject, statement, frozen), record)
        cases = record.queries if record else 0
        events, seconds = {FROM_LOCK: cases}, time.perf_counter() - begun
        yield Result(subject.name, statement.name, "prove", verdict, seconds, cases=cases, events=events)


def _compared(proof: StatementProof, record: ProofRecord) -> Verdict:
    """The code has changed; whether what has to be proved has."""
    if obligation_lines(proof) == record.obligations and not proof.problems:
        return Verdict(Status.PASS, assumptions=record.assumptions)
    return Verdict(Status.FAIL, "the lock file is stale: its obligations have changed; run kvproof prove")


def _open(setting: Setting, certificates: Mapping[str, Certificate], on_question: Say | None = None) -> Solvers:
    backends = [backend(name) for name in setting.solvers]
    return Solvers(
        backends,
        setting.budget,
        shuffle=setting.shuffle,
        certificates=dict(certificates),
        on_question=on_question,
    )


def _start_worker(told: tuple[Setting, Path], say: Say) -> Work:
    """The work function of a prover process: one statement on one subject at a time."""
    setting, path = told
    say("reading the certificates")
    solvers = _open(setting, load_lock(path).certificates, say)
    versions = setting.versions()

    def work(argument: tuple[str, dict[str, Any], str], news: News) -> tuple[Any, Mapping[str, Any]]:
        system, description, name = argument
        solvers.shared.update(news)
        try:
            subject, statement = _subject(system, canonical_json(description)), named(name)
            solvers.begin(f"{name} of {subject.name}", setting.statement_seconds)
            proved = prove_pair(subject, statement, solvers, inputs_of(subject, statement, versions, setting))
        except MemoryError:
            raise
        except Exception as error:  # whatever it is, it costs this statement alone
            if os.environ.get("KVPROOF_DEBUG"):
                traceback.print_exception(error)
            return Lost(_broken(error)), {}
        return proved, proved.certificates

    return work


@lru_cache(maxsize=8)
def _subject(system: str, description: str) -> Subject:
    """The subject of a description; the same object each time, since its symbolic form is kept by it."""
    return described_subject(json.loads(description), system)


def _broken(error: Exception) -> str:
    """An unforeseen error as a reason: what and where."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())[:200]
    return f"the prover broke: {type(error).__name__}: {text} ({Path(place.filename).name}, line {place.lineno})"
