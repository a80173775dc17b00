"""Proving with a lock file: only what has changed is asked again, on all cores."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from kvproof.harness.prove.campaign import named, result_of
from kvproof.harness.prove.certificates import Certificate, Lock, ProofRecord, load_lock, save_lock
from kvproof.harness.prove.discharge import Solvers
from kvproof.harness.prove.fingerprint import fingerprint
from kvproof.harness.prove.statement_proof import StatementProof, prove_statement
from kvproof.harness.prove.subject import Subject
from kvproof.harness.prove.systems import described_subject
from kvproof.harness.solve.backends import backend
from kvproof.harness.solve.query import Budget
from kvproof.properties.statement import Statement
from kvproof.reports.result import Result
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
        jobs: worker processes; 1 proves in this one.
        everything: ask again what the lock file has.
        shuffle: seed of the order of assertions.
    """

    solvers: tuple[str, ...] = ("z3", "cvc5")
    budget: Budget = field(default_factory=Budget)
    jobs: int = 1
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


def prove_locked(pairs: Sequence[Pair], lock: Lock, setting: Setting) -> Iterator[Proved]:
    """Prove what the lock file does not have as proved.

    Args:
        pairs: subjects with statements, each subject's together.
        lock: what has been proved so far. It is not changed; :func:`updated` makes the new one.
        setting: how.

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
    chunks = [list(group) for _, group in groupby(waiting, key=lambda pair: id(pair[0]))]
    if setting.jobs <= 1 or len(chunks) <= 1:
        solvers = _open(setting, known.certificates)
        for subject, statement in waiting:
            yield prove_pair(subject, statement, solvers, inputs_of(subject, statement, versions, setting))
        return
    work = [
        (chunk[0][0].system, dict(chunk[0][0].describe), [statement.name for _, statement in chunk])
        for chunk in chunks
    ]
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="kvproof-") as folder:
        # As a file: a worker that dies before it reads its arguments would leave us writing to a full pipe.
        certificates = Path(folder) / "certificates"
        save_lock(certificates, Lock(dict(versions), dict(known.certificates)))
        workers = min(setting.jobs, len(chunks))
        with ProcessPoolExecutor(workers, context, _start_worker, (setting, certificates)) as pool:
            for proved in pool.map(_prove_chunk, work):
                yield from proved


def inputs_of(subject: Subject, statement: Statement, versions: Mapping[str, str], setting: Setting) -> str:
    """Fingerprint of all that the proof depends on."""
    return fingerprint(subject.name, subject.describe, statement.name, versions, setting.budget)


def _unchanged(subject: Subject, statement: Statement, record: ProofRecord) -> Proved:
    verdict = Verdict(Status.PASS, assumptions=record.assumptions)
    result = Result(subject.name, statement.name, "prove", verdict, 0.0, cases=record.queries)
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
    keys = {step.key for step in proof.steps}
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
        yield Result(subject.name, statement.name, "prove", verdict, time.perf_counter() - begun, cases=cases)


def _compared(proof: StatementProof, record: ProofRecord) -> Verdict:
    """The code has changed; whether what has to be proved has."""
    if obligation_lines(proof) == record.obligations and not proof.problems:
        return Verdict(Status.PASS, assumptions=record.assumptions)
    return Verdict(Status.FAIL, "the lock file is stale: its obligations have changed; run kvproof prove")


def _open(setting: Setting, certificates: Mapping[str, Certificate]) -> Solvers:
    backends = [backend(name) for name in setting.solvers]
    return Solvers(backends, setting.budget, shuffle=setting.shuffle, certificates=certificates)


_worker: tuple[Setting, Solvers] | None = None


def _start_worker(setting: Setting, certificates: Path) -> None:
    global _worker  # noqa: PLW0603  (a process of its own)
    _worker = setting, _open(setting, load_lock(certificates).certificates)


def _prove_chunk(work: tuple[str, dict[str, Any], list[str]]) -> list[Proved]:
    assert _worker is not None
    setting, solvers = _worker
    system, description, names = work
    subject = described_subject(description, system)
    versions = setting.versions()
    return [
        prove_pair(subject, named(name), solvers, inputs_of(subject, named(name), versions, setting))
        for name in names
    ]
