"""Findings and records on disk: one JSON file each, written whole or not at all.

::

    .kvproof/findings/<id>.json
    .kvproof/records/<started>-<hash>.json

A file that cannot be read is never fatal and never deleted: it is renamed to ``<name>.damaged`` with a
warning, and the rest is read.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from kvproof.reports.codec import decode_finding, decode_record, finding_text, record_text
from kvproof.reports.errors import DamagedReportError, ForeignVersionError, ReportError
from kvproof.reports.finding import Finding
from kvproof.reports.record import Record

T = TypeVar("T")

STORE_VARIABLE = "KVPROOF_STORE"
"""Environment variable that names the store's folder; by default ``.kvproof`` in the working directory."""

_log = logging.getLogger("kvproof")


def default_root() -> Path:
    """Where findings and records are kept unless said otherwise."""
    return Path(os.environ.get(STORE_VARIABLE) or ".kvproof")


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that a reader, or a crash, meets the old content or the new, never a part.

    Raises:
        OSError: the folder cannot be written; nothing is left behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # In the same folder, since only there is the replacement one step.
    part = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        with part.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


class Store:
    """A folder of findings and records.

    Args:
        root: the folder; need not exist. By default :func:`default_root`.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = default_root() if root is None else root

    @property
    def findings_folder(self) -> Path:
        """Where findings lie."""
        return self.root / "findings"

    @property
    def records_folder(self) -> Path:
        """Where records lie."""
        return self.root / "records"

    def save_finding(self, finding: Finding) -> Path:
        """Write a finding. The same fault on the same input replaces its former file."""
        path = self.findings_folder / f"{finding.id}.json"
        write_atomically(path, finding_text(finding))
        return path

    def append_record(self, record: Record) -> Path:
        """Write a record beside the others. Runs of one second and name get numbers; none replaces another."""
        text = record_text(record)
        for number in range(1, 1000):
            path = self.records_folder / f"{record.id}{'' if number == 1 else f'-{number}'}.json"
            if not path.exists():
                write_atomically(path, text)
                return path
        raise ReportError(f"{self.records_folder}: 999 records are named {record.id}")

    def find(self, wanted: str) -> Finding:
        """One finding by path, id, or the first digits of an id.

        Raises:
            ReportError: no such finding, more than one, or one that cannot be read.
        """
        path = Path(wanted)
        if path.suffix == ".json" or len(path.parts) > 1:
            return self._read_one(path)
        matches = sorted(self.findings_folder.glob(f"{_literal(wanted)}*.json")) if wanted else []
        if len(matches) == 1:
            return self._read_one(matches[0])
        if matches:
            listed = ", ".join(match.stem for match in matches[:5])
            raise ReportError(f"finding {wanted!r} is ambiguous: {listed}{', ...' if len(matches) > 5 else ''}")
        known = ", ".join(sorted(p.stem for p in self.findings_folder.glob("*.json"))[:5]) or "none"
        raise ReportError(f"finding {wanted!r} is not in {self.findings_folder}; there: {known}")

    def findings(self) -> Iterator[Finding]:
        """Every readable finding, by id."""
        return self._read_all(self.findings_folder, decode_finding)

    def records(self) -> Iterator[Record]:
        """Every readable record, oldest first."""
        return self._read_all(self.records_folder, decode_record)

    def _read_one(self, path: Path) -> Finding:
        try:
            return decode_finding(_text(path), str(path))
        except OSError as error:
            raise ReportError(f"finding {str(path)!r} cannot be read: {error.strerror}") from error

    def _read_all(self, folder: Path, decode: Callable[[str, str], T]) -> Iterator[T]:
        # By stem: a name comes before the same name with a number.
        for path in sorted(folder.glob("*.json"), key=lambda path: path.stem):
            try:
                yield decode(_text(path), str(path))
            except DamagedReportError as error:
                _quarantine(path, error)
            except (ForeignVersionError, OSError) as error:
                _log.warning("skipped: %s", error)


def _literal(text: str) -> str:
    """A glob pattern that matches only this text."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in text)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DamagedReportError(f"{path}: not UTF-8 text: {error.reason} at byte {error.start}") from error


def _quarantine(path: Path, error: DamagedReportError) -> None:
    """Set a damaged file aside, so that the next run does not stumble over it and a person can look at it."""
    aside = path.with_name(path.name + ".damaged")
    try:
        path.replace(aside)
    except OSError as failure:
        _log.warning("%s (it could not be set aside: %s)", error, failure)
    else:
        _log.warning("%s; set aside as %s", error, aside.name)
