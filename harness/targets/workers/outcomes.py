"""What a worker may take, and what becomes of a request to it."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvproof.harness.targets.workers.protocol import Arena

GIB = 1 << 30


@dataclass(frozen=True)
class Limits:
    """What a worker may take.

    Attributes:
        open_seconds: from its start until the target is loaded.
        first_seconds: for the first requests of a contract, which compile kernels.
        seconds: for any other.
        memory_bytes: that it may grow by after the target is loaded.
    """

    open_seconds: float = 180.0
    first_seconds: float = 120.0
    seconds: float = 60.0
    memory_bytes: int = 8 * GIB


class WorkerDied(Exception):  # noqa: N818  (reads as what happened)
    """A worker ended before it answered, or was ended because of what it did.

    Attributes:
        kind: "killed", "exit", "hang", "out of memory" or "corrupt reply".
        detail: what was seen of it.
    """

    def __init__(self, kind: str, detail: str) -> None:
        self.kind, self.detail = kind, detail
        super().__init__(f"{kind}: {detail}")


class NotStarted(WorkerDied):
    """A worker that had loaded its target before does not start again. That is no fault of any launch."""


class NotReached(Exception):  # noqa: N818  (reads as what happened)
    """A request was sent to a worker that died of the one before it."""


@dataclass(frozen=True)
class Launched:
    """The reply to a request to run, with the memory that holds the results."""

    reply: Mapping[str, Any]
    described: Sequence[Mapping[str, Any]]
    placed: list[list[int]]
    arena: Arena


def signal_name(number: int) -> str:
    """Name of a signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
