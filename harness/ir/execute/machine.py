"""Runs a compiled kernel on a grid."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from kvproof.harness.ir.execute.access import Accesses, Touch
from kvproof.harness.ir.execute.collisions import find_collisions
from kvproof.harness.ir.execute.control import CONTROL
from kvproof.harness.ir.execute.memory import Memory, Segment
from kvproof.harness.ir.execute.memory_steps import MEMORY
from kvproof.harness.ir.execute.plan import EndlessError, Frame, Planner, RegionPlan, Step
from kvproof.harness.ir.execute.reductions import REDUCTIONS
from kvproof.harness.ir.execute.report import Kind, Report
from kvproof.harness.ir.execute.starts import SHARED, Start
from kvproof.harness.ir.execute.steps import POINTWISE
from kvproof.harness.ir.execute.values import Array, carrier
from kvproof.harness.ir.execute.watch import watched
from kvproof.harness.ir.reader import Module, Operation, Value

MAKERS = {**POINTWISE, **CONTROL, **REDUCTIONS, **MEMORY}

_GRID = frozenset({"tt.get_program_id", "tt.get_num_programs"})
FOLDABLE = frozenset(POINTWISE) - {*_GRID, "tt.print", "llvm.intr.assume"}

LANES_AT_ONCE = 1 << 21
"""Elements of the widest value that run at once; more programs go in several rounds to stay in memory."""

LOOP_LIMIT = 1 << 17

Arguments: TypeAlias = Mapping[str, "Segment | int | float | bool"]
"""Run-time arguments by name: a segment for a pointer, a number for a scalar."""


@dataclass(frozen=True)
class Executable:
    """A kernel ready to run.

    Attributes:
        arguments: its run-time arguments, in order.
        body: the plan of its body.
        widest: elements of its widest value.
        stored: numbers of the pointer arguments that it may store through; None if that cannot be told.
        known: by value number, what depends on constants alone.
        ordered: programs wait for each other through atomics, so each runs to its end before the next starts.
        early: steps that depend on no memory; they run before the body.
        steady: numbers of the values that these compute.
        placed: numbers of the arguments that are loaded from at addresses that these compute.
    """

    arguments: tuple[Value, ...]
    body: RegionPlan
    widest: int
    stored: frozenset[int] | None
    known: tuple[Array | None, ...]
    ordered: bool
    early: tuple[Step, ...]
    steady: tuple[int, ...]
    placed: frozenset[int]


def prepare(module: Module, *, watch: bool = False) -> Executable:
    """Plan a kernel.

    Args:
        module: its IR.
        watch: also report operations that wrap, round an index or divide a negative value; slow.

    Raises:
        UnsupportedOperation: an operation that the executor does not model, named with its place.
    """
    entry = module.entry
    pure = frozenset[str]() if watch else FOLDABLE
    planner = Planner(module, watched(MAKERS) if watch else MAKERS, pure, pure and pure | _GRID)
    body = planner.entry(entry)
    widest = 1
    stored: set[int] | None = set()
    for function in module.functions.values():
        for operation in function.body.walk():
            for value in (*operation.results, *operation.operands):
                widest = max(widest, int(np.prod(value.type.shape, dtype=np.int64)))
            if _writes(operation):
                sources = planner.sources.get(operation.operands[0].number)
                stored = None if stored is None or not sources else stored | sources
    known = tuple(planner.known.get(number) for number in range(planner.count))
    reached = None if stored is None else frozenset(stored)
    steady = tuple(sorted(planner.steady - {a.number for a in entry.arguments}))
    return Executable(
        entry.arguments,
        body,
        widest,
        reached,
        known,
        _waits(module),
        tuple(planner.early),
        steady,
        frozenset(planner.placed),
    )


def _waits(module: Module) -> bool:
    """Whether some atomic's result is used: that is how a program learns of another's progress."""
    operations = [o for f in module.functions.values() for o in f.body.walk()]
    found = {r.number for o in operations if o.name in {"tt.atomic_rmw", "tt.atomic_cas"} for r in o.results}
    return any(v.number in found for o in operations for v in o.operands)


def _writes(operation: Operation) -> bool:
    return operation.name in {"tt.store", "tt.atomic_rmw", "tt.atomic_cas"}


@dataclass(frozen=True)
class Executed:
    """What an execution did.

    Attributes:
        reports: what was seen.
        stores, loads: the accesses made, where they were asked for.
    """

    reports: list[Report]
    stores: list[Touch]
    loads: list[Touch]


def execute(kernel: Executable, grid: tuple[int, int, int], arguments: Arguments) -> list[Report]:
    """Run a kernel; its stores change the segments' storages.

    Args:
        kernel: what to run.
        grid: programs along x, y, z.
        arguments: each run-time argument by name: a segment for a pointer, a number for a scalar.

    Returns:
        What was seen: accesses out of bounds (which were not made), collisions, reads of undefined memory.
    """
    return observe(kernel, grid, arguments, loads=False).reports


def observe(
    kernel: Executable,
    grid: tuple[int, int, int],
    arguments: Arguments,
    *,
    loads: bool = True,
) -> Executed:
    """Run a kernel and keep the accesses that it made; ``loads`` says whether those of all loads too."""
    memory = Memory()
    accesses = Accesses(memory, grid)
    accesses.ordered = kernel.ordered
    segments: dict[int, Segment] = {}
    alike: list[Hashable] = [id(kernel), grid]
    for value in kernel.arguments:
        given = arguments[value.name]
        if isinstance(given, Segment):
            segments[value.number] = given
            memory.add(given)
            alike.append((given.start, given.layout) if value.number in kernel.placed else None)
        else:
            # Equal numbers of several types, and zeros of either sign, are not the same argument.
            alike.append((type(given), given if given else str(given)))
    for number, segment in segments.items():
        if loads or kernel.stored is None or number in kernel.stored:
            accesses.watched.add(id(segment.storage))
    with np.errstate(all="ignore"):
        for frame in _frames(kernel, accesses, segments, arguments, tuple(alike)):
            try:
                kernel.body.run(frame)
            except EndlessError as error:
                words = f"a loop runs for more than {LOOP_LIMIT} iterations"
                accesses.reports.append(Report(Kind.ENDLESS, words, error.location))
                break
        find_collisions(accesses)
    return Executed(accesses.reports, accesses.stores, accesses.loads)


def _frames(
    kernel: Executable,
    accesses: Accesses,
    segments: dict[int, Segment],
    arguments: Arguments,
    alike: Hashable,
) -> Iterator[Frame]:
    """The programs, as many at once as may be, with the values that depend on no memory."""
    x, y, z = grid = accesses.grid
    total = x * y * z
    at_once = 1 if kernel.ordered else max(1, LANES_AT_ONCE // kernel.widest)
    start = SHARED.get(alike)
    if start is not None:
        yield Frame(
            list(start.values), kernel.known, start.programs, accesses, segments, grid, LOOP_LIMIT, start.placed
        )
        return
    values = list(kernel.known)
    for value in kernel.arguments:
        given = arguments[value.name]
        is_pointer = isinstance(given, Segment)
        values[value.number] = np.array([given.base], np.int64) if is_pointer else _scalar(given, value)
    for first in range(0, total, at_once):
        programs = np.arange(first, min(first + at_once, total))
        frame = Frame(list(values), kernel.known, programs, accesses, segments, grid, LOOP_LIMIT)
        for step in kernel.early:
            step(frame.values, frame)
        if total <= at_once:
            SHARED.keep(alike, Start(kernel, list(frame.values), programs, frame.placed), kernel.steady)
        yield frame


def _scalar(given: float, value: Value) -> Array:
    carried = carrier(value.type.element)
    if value.type.is_float:
        return np.array([given], np.float64).astype(carried)
    if carried is np.bool_:
        return np.array([bool(given)])
    return _integer(int(given), carried)


@lru_cache(maxsize=4096)
def _integer(number: int, carried: type[np.generic]) -> Array:
    """A whole number in the carrying type, wrapped. Shared by launches, so it cannot be written."""
    dtype = np.dtype(carried)
    bits = dtype.itemsize * 8
    array = np.array([(number + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))], dtype)
    array.setflags(write=False)
    return array
