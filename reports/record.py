"""A record: everything one run found, with what is needed to compare it with another run."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from kvproof.reports.result import Result


@dataclass(frozen=True)
class DeviceNote:
    """A device as a run met it.

    Attributes:
        name: device name ("cuda").
        available: whether it could be used.
        detail: what it is, or why it could not be used.
    """

    name: str
    available: bool
    detail: str


@dataclass(frozen=True)
class Record:
    """One run.

    Attributes:
        started: when it began, in UTC ("2026-08-11T09:30:00Z").
        command: the command's arguments, without the program.
        results: what it found, in the order in which it was found.
        seconds: wall time of the whole run.
        complete: false if it was stopped before everything planned was checked.
        seed: seed of everything drawn; None where nothing is.
        commit: commit of kvproof ("+dirty" with uncommitted changes), empty outside a checkout.
        machine: hardware and system by name.
        versions: versions of the packages that a result may depend on; "" for an absent one.
        devices: devices as met.
    """

    started: str
    command: tuple[str, ...]
    results: tuple[Result, ...]
    seconds: float
    complete: bool = True
    seed: int | None = None
    commit: str = ""
    machine: Mapping[str, str] = field(default_factory=dict[str, str])
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    devices: tuple[DeviceNote, ...] = ()

    @property
    def id(self) -> str:
        """Name of the record among others: when it began, and a hash of where and how."""
        key = "\0".join([self.started, self.commit, *self.command, *map(str, sorted(self.machine.items()))])
        stamp = self.started.replace(":", "").replace("-", "")
        return f"{stamp}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"
