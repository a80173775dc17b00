"""Runs a compiled kernel on a grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kvproof.harness.ir.execute.access import Accesses
from kvproof.harness.ir.execute.collisions import find_collisions
from kvproof.harness.ir.execute.control import CONTROL
from kvproof.harness.ir.execute.memory import Memory, Segment
from kvproof.harness.ir.execute.memory_steps import MEMORY
from kvproof.harness.ir.execute.plan import EndlessError, Frame, Planner, RegionPlan
from kvproof.harness.ir.execute.reductions import REDUCTIONS
from kvproof.harness.ir.execute.report import Kind, Report
from kvproof.harness.ir.execute.steps import POINTWISE
from kvproof.harness.ir.execute.values import Array, carrier
from kvproof.harness.ir.reader import Location, Module, Operation, Value

MAKERS = {**POINTWISE, **CONTROL, **REDUCTIONS, **MEMORY}

LANES_AT_ONCE = 1 << 21
"""Elements of the widest value that run at once; more programs go in several rounds to stay in memory."""

LOOP_LIMIT = 1 << 20


@dataclass(frozen=True)
class Executable:
    """A kernel ready to run.

    Attributes:
        arguments: its run-time arguments, in order.
        stored: numbers of the pointer arguments that it may store through; None if that cannot be told.
    """

    arguments: tuple[Value, ...]
    body: RegionPlan
    values: int
    widest: int
    stored: frozenset[int] | None


def prepare(module: Module) -> Executable:
    """Plan a kernel.

    Raises:
        UnsupportedOperation: an operation that the executor does not model, named with its place.
    """
    entry = module.entry
    planner = Planner(module, MAKERS)
    body = planner.function(entry)
    widest = 1
    stored: set[int] | None = set()
    for function in module.functions.values():
        for operation in function.body.walk():
            for value in (*operation.results, *operation.operands):
                widest = max(widest, int(np.prod(value.type.shape, dtype=np.int64)))
            if _writes(operation):
                sources = planner.sources.get(operation.operands[0].number)
                stored = None if stored is None or not sources else stored | sources
    return Executable(entry.arguments, body, planner.count, widest, None if stored is None else frozenset(stored))


def _writes(operation: Operation) -> bool:
    return operation.name in {"tt.store", "tt.atomic_rmw", "tt.atomic_cas"}


def execute(
    kernel: Executable, grid: tuple[int, int, int], arguments: Mapping[str, Segment | int | float | bool]
) -> list[Report]:
    """Run a kernel; its stores change the segments' storages.

    Args:
        kernel: what to run.
        grid: programs along x, y, z.
        arguments: each run-time argument by name: a segment for a pointer, a number for a scalar.

    Returns:
        What was seen: accesses out of bounds (which were not made), collisions, reads of undefined memory.
    """
    memory = Memory()
    accesses = Accesses(memory, grid)
    values: list[Array | None] = [None] * kernel.values
    segments: dict[int, Segment] = {}
    for value in kernel.arguments:
        given = arguments[value.name]
        if isinstance(given, Segment):
            segments[value.number] = given
            values[value.number] = np.array([memory.add(given)], np.int64)
        else:
            values[value.number] = _scalar(given, value)
    for number, segment in segments.items():
        if kernel.stored is None or number in kernel.stored:
            accesses.watched.add(id(segment.storage))
    total = grid[0] * grid[1] * grid[2]
    at_once = max(1, LANES_AT_ONCE // kernel.widest)
    with np.errstate(all="ignore"):
        for start in range(0, total, at_once):
            programs = np.arange(start, min(start + at_once, total))
            frame = Frame(list(values), programs, accesses, segments, grid, LOOP_LIMIT)
            try:
                kernel.body.run(frame)
            except EndlessError:
                words = f"a loop runs for more than {LOOP_LIMIT} iterations"
                accesses.reports.append(Report(Kind.ENDLESS, words, Location()))
                break
        find_collisions(accesses)
    return accesses.reports


def _scalar(given: float, value: Value) -> Array:
    if value.type.is_float:
        return np.array([given], np.float64).astype(carrier(value.type.element))
    dtype = np.dtype(carrier(value.type.element))
    if dtype == np.bool_:
        return np.array([bool(given)])
    number = int(given)
    bits = dtype.itemsize * 8
    return np.array([(number + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))], dtype)
