"""Shrinking a failing schedule: operations left out, sequences left out, numbers made smaller."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kvproof.harness.simulate.operations import Operation
from kvproof.harness.simulate.schedule import Failure, World, failure_of

Keep = Callable[[Sequence[Operation]], bool]

ATTEMPTS = 5000
"""Schedules that are tried; counted rather than timed, so that a shrunk schedule is the same everywhere."""


def shrink(world: World, failure: Failure, attempts: int = ATTEMPTS) -> Failure:
    """The smallest schedule found that fails too, until nothing smaller fails or so many were tried."""
    best = failure
    tried: set[tuple[Operation, ...]] = set()

    def fails(schedule: Sequence[Operation]) -> bool:
        nonlocal best
        key = tuple(schedule)
        if key in tried or len(tried) >= attempts or not _smaller(key, best.schedule):
            return False
        tried.add(key)
        found = failure_of(world, schedule)
        if found is None or not _smaller(found.schedule, best.schedule):
            return False
        best = found
        return True

    before = None
    while before != best.schedule and len(tried) < attempts:
        before = best.schedule
        _leave_out(lambda: best.schedule, fails)
        for change in (_fewer_parts, _smaller_numbers):
            _try_all(lambda: best.schedule, change, fails)
    renamed = failure_of(world, _renamed(best.schedule))
    if renamed is not None:
        best = renamed
    return best


def size(schedule: Sequence[Operation]) -> tuple[int, int, int]:
    """What makes a schedule larger than another: operations, then sequences in them, then their numbers."""
    parts = sum(len(getattr(operation, "parts", ())) for operation in schedule)
    return len(schedule), parts, sum(_weight(operation) for operation in schedule)


def _weight(operation: Operation) -> int:
    total = 0
    for field in dataclasses.fields(operation):
        value = getattr(operation, field.name)
        if field.name == "parts":
            total += sum(sum(part[1:]) for part in value)
        elif isinstance(value, int) and field.name not in {"name", "child"}:
            total += value
        elif value == "recompute":
            total += 1
    return total


def _smaller(one: Sequence[Operation], other: Sequence[Operation]) -> bool:
    return size(one) < size(other)


def _leave_out(current: Callable[[], Sequence[Operation]], fails: Keep) -> None:
    """Leave out runs of operations, longer ones first, from the end."""
    length = len(current()) // 2
    while length:
        at = len(current()) - length
        while at >= 0:
            schedule = current()
            if fails([*schedule[:at], *schedule[at + length :]]):
                at = min(at, len(current()))
            at -= length
        length //= 2


def _try_all(
    current: Callable[[], Sequence[Operation]], change: Callable[[Operation], Iterator[Operation]], fails: Keep
) -> None:
    """Replace single operations by smaller ones, as long as that goes on failing."""
    for at in range(len(current()) - 1, -1, -1):
        again = True
        while again and at < len(current()):
            again = False
            schedule = current()
            for smaller in change(schedule[at]):
                if fails([*schedule[:at], smaller, *schedule[at + 1 :]]):
                    again = True
                    break


def _fewer_parts(operation: Operation) -> Iterator[Operation]:
    parts: tuple[Any, ...] = getattr(operation, "parts", ())
    for at in range(len(parts)) if len(parts) > 1 else ():
        yield dataclasses.replace(operation, parts=(*parts[:at], *parts[at + 1 :]))  # type: ignore[call-arg]


def _smaller_numbers(operation: Operation) -> Iterator[Operation]:
    for field in dataclasses.fields(operation):
        value = getattr(operation, field.name)
        if field.name == "parts":
            yield from _smaller_parts(operation, value)
        elif isinstance(value, int) and field.name not in {"name", "child"}:
            for less in lesser(value):
                yield dataclasses.replace(operation, **{field.name: less})
        elif value == "recompute":
            yield dataclasses.replace(operation, how="checkpoint")  # type: ignore[call-arg]


def _smaller_parts(operation: Operation, parts: tuple[tuple[int, ...], ...]) -> Iterator[Operation]:
    for at, part in enumerate(parts):
        for column in range(1, len(part)):
            for less in lesser(part[column]):
                changed = (*part[:column], less, *part[column + 1 :])
                yield dataclasses.replace(operation, parts=(*parts[:at], changed, *parts[at + 1 :]))  # type: ignore[call-arg]


def lesser(value: int) -> Iterator[int]:
    """Smaller numbers to try: the least first, then ever closer ones."""
    seen = {value}
    step = value
    while step:
        less = value - step
        if less not in seen:
            seen.add(less)
            yield less
        step //= 2


def _renamed(schedule: Sequence[Operation]) -> list[Operation]:
    """Requests numbered from 1 in the order in which they come."""
    names: dict[int, int] = {}

    def new(name: int) -> int:
        return names.setdefault(name, len(names) + 1)

    renamed: list[Operation] = []
    for operation in schedule:
        values: dict[str, Any] = {
            key: new(getattr(operation, key)) for key in ("name", "child") if hasattr(operation, key)
        }
        if hasattr(operation, "parts"):
            values["parts"] = tuple((new(part[0]), *part[1:]) for part in operation.parts)  # type: ignore[union-attr]
        renamed.append(dataclasses.replace(operation, **values))
    return renamed
