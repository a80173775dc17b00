"""How a command proves: with which lock file, solvers and workers, and what it writes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from kvproof.harness.cli.errors import UsageError
from kvproof.models.deepseek_v4 import ModelConfig, real_configs
from kvproof.reports.result import Result
from kvproof.reports.verdict import Status, Verdict


@dataclass(frozen=True)
class ProofChoice:
    """How to prove.

    Attributes:
        lock: the lock file; None proves everything anew and keeps nothing.
        everything: ask again what the lock file has.
        check: ask nothing; only tell whether the lock file proves everything as it is.
        theorems: also prove for every size.
        jobs: worker processes; 0 is one a core.
        one_solver: ask the first solver that is here; otherwise each of them has to agree.
        solvers: names; empty is every one of the two usual ones that is installed.
    """

    lock: Path | None = None
    everything: bool = False
    check: bool = False
    theorems: bool = False
    jobs: int = 0
    one_solver: bool = False
    solvers: tuple[str, ...] = ()


EVERYTHING_ANEW = ProofChoice()
"""No lock file, on all cores."""


def default_lock(subjects: Sequence[ModelConfig]) -> Path:
    """The repository's lock file in a checkout; for other configurations and elsewhere one of the user's own."""
    served = {config.name: config for config in real_configs()}
    in_repository = Path("proofs").is_dir() and all(served.get(s.name) == s for s in subjects)
    return Path("proofs" if in_repository else ".kvproof") / "proofs.lock"


def parse_solvers(wanted: Sequence[str] | None) -> tuple[str, ...]:
    """The solvers of ``--solver``, each of which can be opened here.

    Raises:
        UsageError: an unknown one, one given twice, or one that is not installed.
    """
    from kvproof.harness.solve.backends import KNOWN, SolverAbsentError, backend

    for name in wanted or ():
        if name not in KNOWN:
            raise UsageError(f"--solver is {name!r}; allowed: {', '.join(KNOWN)}")
        if list(wanted or ()).count(name) > 1:
            raise UsageError(f"--solver names {name} more than once")
        try:
            backend(name)
        except SolverAbsentError as error:
            raise UsageError(f"--solver is {name!r}: {error}") from error
    return tuple(wanted or ())


def theorem_pairs() -> list[tuple[str, str]]:
    """(subject, statement) of every proof for every size, by name."""
    from kvproof.harness.prove.theorems import theorem_subjects

    return [(subject.name, name) for subject in theorem_subjects() for name in subject.statements or ()]


def run_proofs(
    subjects: Sequence[Any], choice: ProofChoice, on_wait: Callable[[str], None] | None = None
) -> Iterator[Result]:
    """Prove every statement of each subject's system, or check the lock file.

    Args:
        subjects: :class:`~kvproof.harness.prove.subject.Subject` each.
        choice: how.
        on_wait: told again and again what is being asked.
    """
    from kvproof.harness.prove.campaign import pairs_of
    from kvproof.harness.prove.certificates import Lock, save_lock
    from kvproof.harness.prove.locked import Proved, Setting, default_jobs, prove_locked, stale, updated
    from kvproof.harness.prove.theorems import theorem_subjects
    from kvproof.harness.solve.backends import installed

    pairs = pairs_of([*subjects, *(theorem_subjects() if choice.theorems else [])])
    solvers = choice.solvers or tuple(installed())[: 1 if choice.one_solver else None]
    if not solvers:
        missing = Verdict(Status.NOT_RUN, "no solver is installed; pip install z3-solver cvc5")
        for subject, statement in pairs:
            yield Result(subject.name, statement.name, "prove", missing, 0.0)
        return
    setting = Setting(solvers=solvers, jobs=choice.jobs or default_jobs(), everything=choice.everything)
    lock = Lock() if choice.lock is None else believed_lock(choice.lock)
    if choice.check:
        yield from stale(pairs, lock, setting)
        return
    done: list[Proved] = []
    try:
        for proved in prove_locked(pairs, lock, setting, on_wait):
            done.append(proved)
            yield proved.result
    finally:
        known = {id(record) for record in lock.proofs.values()}
        missing = sorted(set(lock.solvers) - set(solvers))
        if choice.lock is not None and any(id(item.record) not in known for item in done):
            if missing:
                # Fewer solvers say less: what the file has of all of them is worth more than this run.
                typer.echo(
                    f"kvproof: {choice.lock} stays as it is: this run did not ask {', '.join(missing)}", err=True
                )
            else:
                save_lock(choice.lock, updated(lock, setting.versions(), done))


def believed_lock(path: Path) -> Any:
    """The lock file's contents; nothing of one that is damaged, which is said."""
    from kvproof.harness.prove.certificates import Lock, LockError, load_lock

    try:
        return load_lock(path)
    except LockError as error:
        kept = path.with_name(f"{path.name}.damaged")
        path.replace(kept)
        typer.echo(f"kvproof: {error}; kept as {kept}, starting afresh", err=True)
        return Lock()


def parse_lock(text: str) -> Path:
    """The file of ``--lock``: a lock file, or a new one in a folder that is there.

    Raises:
        UsageError: something else has that name, or its folder is missing.
    """
    path = Path(text)
    if not path.parent.is_dir():
        raise UsageError(f"--lock is {text!r}, but there is no folder {str(path.parent)!r}")
    if not path.exists():
        return path
    if not path.is_file():
        raise UsageError(
            f"--lock is {text!r}, which is not a file; allowed: a lock file, or the name of a new one"
        )
    with path.open("rb") as file:
        start = file.read(4096)
    if start.strip() and not (b'"schema"' in start and b'"solvers"' in start):
        raise UsageError(
            f"--lock is {text!r}, which is no lock file; it is left as it is. Name a new file instead"
        )
    return path
