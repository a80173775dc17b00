"""The journal of a campaign: what has been done, line by line, so that a killed campaign goes on where it was.

Each line is a JSON object with a checksum of its own, appended by one write and made durable. A line that a crash
cut short, or that was damaged, is not believed: what it tells of is done again, which gives the same result.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kvproof.reports.finding import canonical_json


class JournalError(ValueError):
    """A journal is of another campaign, or cannot be written."""


def encode(entry: Mapping[str, Any]) -> bytes:
    """One line."""
    text = canonical_json(entry)
    return f"{zlib.crc32(text.encode()):08x} {text}\n".encode()


def decode(line: bytes) -> dict[str, Any] | None:
    """The entry of a line; None for a damaged one."""
    digest, _, text = line.rstrip(b"\n").partition(b" ")
    if not line.endswith(b"\n") or f"{zlib.crc32(text):08x}".encode() != digest:
        return None
    try:
        entry: Any = json.loads(text)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


class Journal:
    """An append-only file.

    Args:
        path: the file; made, with its folder, if it is not there.
        header: what campaign it is. A journal of another is refused.

    Attributes:
        entries: the readable entries so far, the header left out.
        damaged: lines that could not be believed.

    Raises:
        JournalError: of another campaign, or a file that cannot be written.
    """

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        self.path = path
        self.entries: list[dict[str, Any]] = []
        self.damaged = 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            held = path.read_bytes() if path.exists() else b""
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError as error:
            raise JournalError(f"journal {str(path)!r} cannot be written: {error.strerror}") from error
        found = list(self._read(held))
        if found and "campaign" not in found[0]:
            os.close(self._file)
            raise JournalError(
                f"journal {str(path)!r} does not say what campaign it is of: its first line is damaged; "
                "give another folder"
            )
        if found and found[0] != dict(header):
            differs = sorted(key for key in {*found[0], *header} if found[0].get(key) != header.get(key))
            os.close(self._file)
            raise JournalError(
                f"journal {str(path)!r} is of another campaign: it differs in {', '.join(differs)}; "
                "give the same options, or another folder"
            )
        if held and not held.endswith(b"\n"):
            os.write(self._file, b"\n")  # so that the next line is one of its own
        if found:
            self.entries = found[1:]
        else:
            self.append(header)
            self.entries = []

    def _read(self, held: bytes) -> Iterator[dict[str, Any]]:
        for line in held.splitlines(keepends=True):
            entry = decode(line)
            if entry is not None:
                yield entry
            elif line.strip():
                self.damaged += 1

    def append(self, entry: Mapping[str, Any]) -> None:
        """Add an entry. When this returns, a crash does not lose it.

        Raises:
            JournalError: the file cannot be written.
        """
        line = encode(entry)
        try:
            if os.write(self._file, line) != len(line):
                raise JournalError(f"journal {str(self.path)!r}: an entry was written in part; is the disk full?")
            os.fsync(self._file)
        except OSError as error:
            raise JournalError(f"journal {str(self.path)!r} cannot be written: {error.strerror}") from error
        self.entries.append(dict(entry))

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
