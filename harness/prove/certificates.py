"""The lock file: what has been proved, of exactly which question, by which versions of which solvers.

It is one JSON file whose last entry is a hash of the others. A file that is truncated, edited or written by
another schema is reported and started afresh; nothing in it is then believed.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from kvproof.reports.finding import canonical_json

LOCK_SCHEMA = 1
DEFAULT_LOCK = Path("proofs") / "proofs.lock"


@dataclass(frozen=True)
class Certificate:
    """One proved question.

    Attributes:
        core: hash of the part of the text that the solvers were asked.
        resources: for each solver that said unsat, the resource units it took.
    """

    core: str
    resources: Mapping[str, int]


@dataclass(frozen=True)
class ProofRecord:
    """What was proved of one statement on one subject.

    Attributes:
        inputs: fingerprint of what the proof depends on.
        verdict: status of the proof.
        assumptions: of its verdict.
        queries: how many there were, vacuity checks and twins included.
        obligations: one line each: kind, name, path and the hash of its normalised SMT-LIB.
    """

    inputs: str
    verdict: str
    assumptions: tuple[str, ...]
    queries: int
    obligations: tuple[str, ...]


@dataclass
class Lock:
    """The contents of a lock file.

    Attributes:
        solvers: version of each solver that the certificates are of.
        certificates: by hash of the normalised SMT-LIB text.
        proofs: by subject and statement.
    """

    solvers: dict[str, str] = field(default_factory=dict[str, str])
    certificates: dict[str, Certificate] = field(default_factory=dict[str, Certificate])
    proofs: dict[tuple[str, str], ProofRecord] = field(default_factory=dict[tuple[str, str], ProofRecord])

    def kept_for(self, solvers: Mapping[str, str]) -> Lock:
        """What still counts with these solvers: everything, or nothing if a version differs."""
        same = all(self.solvers.get(name) == version for name, version in solvers.items())
        return self if same else Lock(dict(solvers))

    def without_unused(self) -> Lock:
        """The lock without certificates that no proof names any more."""
        used = {line.rsplit(" ", 1)[-1] for record in self.proofs.values() for line in record.obligations}
        kept = {key: certificate for key, certificate in self.certificates.items() if key in used}
        return Lock(self.solvers, kept, self.proofs)


class LockError(ValueError):
    """The lock file cannot be believed. Says why."""


def load_lock(path: Path) -> Lock:
    """Read a lock file; an absent one is empty.

    Raises:
        LockError: it is truncated, edited, or of another schema.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Lock()
    except (OSError, UnicodeDecodeError) as error:
        raise LockError(f"lock file {path} cannot be read: {error}") from error
    try:
        loaded: Any = json.loads(text)
        if not isinstance(loaded, dict):
            raise LockError(f"lock file {path} holds no object")
        data = cast("dict[str, Any]", loaded)
        told = data.pop("sum", None)
        if told != _sum(data):
            raise LockError(f"lock file {path} has been changed or damaged: its sum does not match its contents")
        if data.get("schema") != LOCK_SCHEMA:
            raise LockError(f"lock file {path} has schema {data.get('schema')!r}; this is {LOCK_SCHEMA}")
        return _from_json(data)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, LockError):
            raise
        raise LockError(f"lock file {path} is damaged: {error}") from error


def save_lock(path: Path, lock: Lock) -> None:
    """Write a lock file atomically: a reader sees the old one or the new one, whole."""
    data = _to_json(lock)
    text = json.dumps({**data, "sum": _sum(data)}, indent=0, ensure_ascii=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _sum(data: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical_json(data).encode()).hexdigest()


def _to_json(lock: Lock) -> dict[str, Any]:
    # Configurations that share what is proved of them share one list.
    lists = {_list_name(record.obligations): list(record.obligations) for record in lock.proofs.values()}
    return {
        "schema": LOCK_SCHEMA,
        "solvers": dict(sorted(lock.solvers.items())),
        "certificates": {
            key: " ".join([c.core, *(f"{solver}={units}" for solver, units in sorted(c.resources.items()))])
            for key, c in sorted(lock.certificates.items())
        },
        "obligations": dict(sorted(lists.items())),
        "proofs": [
            {
                "subject": subject,
                "statement": statement,
                "inputs": record.inputs,
                "verdict": record.verdict,
                "assumptions": list(record.assumptions),
                "queries": record.queries,
                "obligations": _list_name(record.obligations),
            }
            for (subject, statement), record in sorted(lock.proofs.items())
        ],
    }


def _list_name(lines: tuple[str, ...]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _from_json(data: Mapping[str, Any]) -> Lock:
    certificates: dict[str, Certificate] = {}
    for key, text in data["certificates"].items():
        core, *units = text.split(" ")
        certificates[key] = Certificate(core, {name: int(n) for name, n in (unit.split("=") for unit in units)})
    lists = {name: tuple(lines) for name, lines in data["obligations"].items()}
    proofs = {
        (item["subject"], item["statement"]): ProofRecord(
            item["inputs"],
            item["verdict"],
            tuple(item["assumptions"]),
            int(item["queries"]),
            lists[item["obligations"]],
        )
        for item in data["proofs"]
    }
    return Lock(dict(data["solvers"]), certificates, proofs)
