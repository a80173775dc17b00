"""The operations that a schedule is made of, as plain data.

Requests have names that the operation which begins them gives, so leaving operations out renames nobody. An
operation whose request is not there, or not in the right state, does nothing: any part of a schedule is one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias


@dataclass(frozen=True)
class Admit:
    """Begin a request: ``shared`` tokens of a family's prefix, ``own`` of its own, ``answer`` to be generated."""

    name: int
    family: int = 0
    shared: int = 0
    own: int = 1
    answer: int = 1
    site: int = 0


@dataclass(frozen=True)
class Prefill:
    """One forward of chunks: each request up to a position.

    Attributes:
        parts: (request, position) of each sequence, in the order of the batch.
        micro: microbatches that it is run in.
    """

    parts: tuple[tuple[int, int], ...]
    micro: int = 1


@dataclass(frozen=True)
class Decode:
    """One forward of last tokens and drafts.

    Attributes:
        parts: (request, drafts, drafts accepted) of each sequence, in the order of the batch.
        padding: padded tokens of the graph bucket.
        micro: microbatches that it is run in.
    """

    parts: tuple[tuple[int, int, int], ...]
    padding: int = 0
    micro: int = 1


@dataclass(frozen=True)
class Finish:
    """End a request, complete or not."""

    name: int


@dataclass(frozen=True)
class Preempt:
    """Take a running request's slot: with a checkpoint that it resumes from, or to be computed again."""

    name: int
    how: Literal["checkpoint", "recompute"] = "checkpoint"


@dataclass(frozen=True)
class Resume:
    """Let a preempted request run again."""

    name: int


@dataclass(frozen=True)
class Fork:
    """A second request goes on from where a first one is."""

    name: int
    child: int
    answer: int = 1


@dataclass(frozen=True)
class Evict:
    """Drop the least recently used idle blocks of the prefix cache."""

    blocks: int = 1
    site: int = 0


@dataclass(frozen=True)
class Boundary:
    """Move the boundary between blocks and slots."""

    slots: int
    site: int = 0


@dataclass(frozen=True)
class Transfer:
    """Move a request to the other pool."""

    name: int


@dataclass(frozen=True)
class Drain:
    """Let every request finish, and see that nothing is left."""


Operation: TypeAlias = (
    Admit | Prefill | Decode | Finish | Preempt | Resume | Fork | Evict | Boundary | Transfer | Drain
)
KINDS: Mapping[str, type[Any]] = {
    kind.__name__.lower(): kind
    for kind in (Admit, Prefill, Decode, Finish, Preempt, Resume, Fork, Evict, Boundary, Transfer, Drain)
}


def operation_json(operation: Operation) -> dict[str, Any]:
    """An operation as JSON values."""
    values = {f.name: getattr(operation, f.name) for f in dataclasses.fields(operation)}
    if "parts" in values:
        values["parts"] = [[int(number) for number in part] for part in values["parts"]]
    return {"operation": type(operation).__name__.lower(), **values}


def operation_from_json(data: Mapping[str, Any]) -> Operation:
    """The operation that :func:`operation_json` wrote.

    Raises:
        ValueError: not such an operation.
    """
    values = dict(data)
    kind = KINDS.get(str(values.pop("operation", "")))
    if kind is None:
        raise ValueError(f"operation is {data.get('operation')!r}; allowed: {', '.join(KINDS)}")
    if "parts" in values:
        values["parts"] = tuple(tuple(part) for part in values["parts"])
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(f"not an operation: {error}") from error


def schedule_json(operations: Iterable[Operation]) -> list[dict[str, Any]]:
    """A schedule as JSON values."""
    return [operation_json(operation) for operation in operations]


def schedule_from_json(data: Iterable[Mapping[str, Any]]) -> list[Operation]:
    """A schedule from JSON values.

    Raises:
        ValueError: not a schedule.
    """
    return [operation_from_json(item) for item in data]
