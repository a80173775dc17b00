"""Steps of loads, stores, atomics and assertions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from kvproof.harness.ir.execute.access import WIDTHS, Place, Update, atomic_update, poison
from kvproof.harness.ir.execute.memory import Segment
from kvproof.harness.ir.execute.plan import Frame, Maker, Planner, Step
from kvproof.harness.ir.execute.report import Kind, Report
from kvproof.harness.ir.execute.values import Array, UnsupportedOperation, carrier
from kvproof.harness.ir.reader import Operation

Segments = Callable[[Array, "Array | None", Frame], Iterator["tuple[Segment, Array | None]"]]
"""From (addresses, mask, frame) to each segment concerned with the mask of its lanes."""


def _segments(operation: Operation, planner: Planner) -> Segments:
    pointer = operation.operands[0]
    if not pointer.type.is_pointer:
        raise UnsupportedOperation(f"{operation.name} of {pointer.type}")
    carrier(pointer.type.pointee)
    sources = planner.sources.get(pointer.number, frozenset())
    if len(sources) == 1:
        (argument,) = sources

        def one(_a: Array, mask: Array | None, frame: Frame) -> Iterator[tuple[Segment, Array | None]]:
            yield frame.arguments[argument], mask

        return one

    def several(address: Array, mask: Array | None, frame: Frame) -> Iterator[tuple[Segment, Array | None]]:
        memory = frame.accesses.memory
        numbers = memory.numbers(address)
        live = numbers if mask is None else np.where(mask, numbers, -1)
        for number in np.unique(live).tolist():
            if 1 <= number <= len(memory.segments):
                yield memory.segments[number - 1], live == number
            elif number != -1 or mask is None:
                raise UnsupportedOperation(f"an address of no tensor at {operation.location}")

    return several


def _loose(operation: Operation, planner: Planner) -> bool:
    pointer = operation.operands[0]
    return planner.grains.get(pointer.number, 1) % WIDTHS[pointer.type.pointee] != 0


def _load(operation: Operation, planner: Planner) -> Step:
    segments = _segments(operation, planner)
    loose = _loose(operation, planner)
    type_ = operation.operands[0].type
    p, *rest = (o.number for o in operation.operands)
    m, other = (*rest, None, None)[:2]
    r = operation.result.number
    sources = planner.sources.get(operation.operands[0].number, frozenset())
    argument = next(iter(sources)) if len(sources) == 1 else None
    steady = all(planner.depends_on_launch(o) for o in operation.operands[:2])
    if steady and argument is not None:
        planner.placed.add(argument)

    def one(values: list[Array | None], frame: Frame) -> None:
        address, mask = values[p], None if m is None else values[m]
        assert address is not None  # SSA: defined
        default = None if other is None else values[other]
        at = Place(operation, type_.pointee, type_.shape, frame.programs, loose)
        values[r] = frame.accesses.load(frame.arguments[argument], address, mask, default, at)  # type: ignore[index]

    def placed(values: list[Array | None], frame: Frame) -> None:
        address, mask = values[p], None if m is None else values[m]
        assert address is not None  # SSA: defined
        default = None if other is None else values[other]
        accesses, segment = frame.accesses, frame.arguments[argument]  # type: ignore[index]
        found = frame.placed.get(r)
        if found is None:
            at = Place(operation, type_.pointee, type_.shape, frame.programs, loose)
            before = len(accesses.reports)
            found = (at, *accesses.place(segment, address, mask, at.element, at))
            if len(accesses.reports) == before:  # what is reported once is reported each time
                frame.placed[r] = found
        values[r] = accesses.load(segment, address, mask, default, found[0], found[1:])

    def step(values: list[Array | None], frame: Frame) -> None:
        address, mask = values[p], None if m is None else values[m]
        assert address is not None  # SSA: defined
        default = None if other is None else values[other]
        at = Place(operation, type_.pointee, type_.shape, frame.programs, loose)
        found: Array | None = None
        for segment, lanes in segments(address, mask, frame):
            data = frame.accesses.load(segment, address, lanes, default, at)
            found = data if found is None else np.where(lanes, data, found)  # type: ignore[arg-type]
        if found is None:
            found = np.full((1,) * address.ndim, poison(type_.pointee)) if default is None else default
        values[r] = found

    if argument is None:
        return step
    return placed if steady else one


def _store(operation: Operation, planner: Planner) -> Step:
    segments = _segments(operation, planner)
    loose = _loose(operation, planner)
    type_ = operation.operands[0].type
    p, v, *rest = (o.number for o in operation.operands)
    m = rest[0] if rest else None

    def step(values: list[Array | None], frame: Frame) -> None:
        address, value = values[p], values[v]
        assert address is not None  # SSA: defined
        assert value is not None
        mask = None if m is None else values[m]
        at = Place(operation, type_.pointee, type_.shape, frame.programs, loose)
        for segment, lanes in segments(address, mask, frame):
            frame.accesses.store(segment, address, value, lanes, at)

    return step


def _atomic(operation: Operation, planner: Planner) -> Step:
    segments = _segments(operation, planner)
    loose = _loose(operation, planner)
    type_ = operation.operands[0].type
    swap = operation.name == "tt.atomic_cas"
    update = None if swap else atomic_update(operation.words[0], type_.pointee)
    p, v, *rest = (o.number for o in operation.operands)
    m = rest[0] if rest and not swap else None
    r = operation.results[0].number if operation.results else None

    def step(values: list[Array | None], frame: Frame) -> None:
        address, value = values[p], values[v]
        assert address is not None  # SSA: defined
        assert value is not None
        mask = None if m is None else values[m]
        at = Place(operation, type_.pointee, type_.shape, frame.programs, loose)
        shape = (len(frame.programs), *type_.shape)
        how = update
        if how is None:
            wanted, value = value, values[rest[0]]
            assert value is not None
            how = _compare_and_swap(np.broadcast_to(wanted, shape).reshape(-1))
        for segment, lanes in segments(address, mask, frame):
            found = frame.accesses.atomic(segment, address, value, lanes, at, how)
            if r is not None:
                before = values[r] if lanes is not mask else None
                values[r] = found if before is None else np.where(np.broadcast_to(lanes, shape), found, before)  # type: ignore[arg-type]

    return step


def _compare_and_swap(wanted: Array) -> Update:
    return lambda old, new, at: np.where(old == wanted[at], new, old)


def _assert(operation: Operation, _planner: Planner) -> Step:
    c = operation.operands[0].number
    message = operation.words[0] if operation.words else ""

    def step(values: list[Array | None], frame: Frame) -> None:
        condition = values[c]
        assert condition is not None  # SSA: defined
        if not condition.all():
            row = int(np.argwhere(~condition)[0][0])
            program = frame.accesses.program(int(frame.programs[min(row, len(frame.programs) - 1)]))
            report = Report(
                Kind.ASSERTION,
                message or "tl.device_assert",
                operation.location,
                programs=(program,),
                count=int((~condition).sum()),
            )
            frame.accesses.reports.append(report)

    return step


MEMORY: dict[str, Maker] = {
    "tt.load": _load,
    "tt.store": _store,
    "tt.atomic_rmw": _atomic,
    "tt.atomic_cas": _atomic,
    "tt.assert": _assert,
}
