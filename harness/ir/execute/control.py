"""Structured control flow: programs that decide differently go on as two sets and are put together again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kvproof.harness.ir.execute.plan import EndlessError, Frame, Maker, Planner, RegionPlan, Results, Step, merge
from kvproof.harness.ir.execute.values import Array
from kvproof.harness.ir.reader import Operation


def _assign(values: list[Array | None], numbers: Sequence[int], results: Results) -> None:
    for number, result in zip(numbers, results, strict=True):
        values[number] = result


def _if(operation: Operation, planner: Planner) -> Step:
    c = operation.operands[0].number
    numbers = tuple(r.number for r in operation.results)
    plans = [planner.region(region) for region in operation.regions]
    yes = plans[0]
    no = plans[1] if len(plans) > 1 else None

    def step(values: list[Array | None], frame: Frame) -> None:
        condition = values[c]
        assert condition is not None  # SSA: defined
        if condition.all():
            _assign(values, numbers, yes.run(frame))
        elif not condition.any():
            if no is not None:
                _assign(values, numbers, no.run(frame))
        else:
            rows, others = np.flatnonzero(condition), np.flatnonzero(~condition)
            parts = [(rows, yes.run(frame.select(rows, yes.captured)))]
            if no is not None:
                parts.append((others, no.run(frame.select(others, no.captured))))
            if numbers:
                _assign(values, numbers, merge(parts, len(frame.programs)))

    return step


class _Carried:
    """Loop-carried values of programs that leave a loop at different times."""

    def __init__(self, frame: Frame, body: Sequence[int], arguments: Results) -> None:
        self.outer = frame
        self.frame = frame
        self.captured = body
        self.rows = np.arange(len(frame.programs))
        self.arguments = arguments
        self.done: list[tuple[Array, Results]] = []

    def keep(self, going: Array, results: Results) -> None:
        """Let the programs that do not go on leave with these results."""
        if going.all():
            return
        leaving, staying = np.flatnonzero(~going), np.flatnonzero(going)
        self.done.append((self.rows[leaving], _rows(results, leaving)))
        self.rows = self.rows[staying]
        self.frame = self.outer.select(self.rows, self.captured)
        self.arguments = _rows(self.arguments, staying)

    def finish(self, results: Results) -> Results:
        """Results of all programs, where those still in leave with ``results``."""
        if len(self.rows):
            self.done.append((self.rows, results))
        return merge(self.done, len(self.outer.programs))


def _rows(values: Results, rows: Array) -> Results:
    return tuple(v if v.shape[0] == 1 else v[rows] for v in values)


def _for(operation: Operation, planner: Planner) -> Step:
    low, stop, step_size, *carried = (o.number for o in operation.operands)
    numbers = tuple(r.number for r in operation.results)
    body = planner.region(operation.regions[0])
    dtype = np.int64

    def step(values: list[Array | None], frame: Frame) -> None:
        first, last, stride = (values[n] for n in (low, stop, step_size))
        assert first is not None  # SSA: defined, like the other two
        assert last is not None
        assert stride is not None
        wide = [v.astype(dtype) for v in (first, last, stride)]
        trips = np.maximum(-((wide[0] - wide[1]) // np.maximum(wide[2], 1)), 0)
        if int(trips.max(initial=0)) > frame.limit:
            raise EndlessError(operation.location)
        start = tuple(values[n] for n in carried)
        results = _run_for(body, frame, trips, first, stride, start)  # type: ignore[arg-type]  # SSA: defined
        _assign(values, numbers, results)

    return step


def _run_for(body: RegionPlan, frame: Frame, trips: Array, first: Array, stride: Array, start: Results) -> Results:
    if trips.size == 1 or (trips == trips[0]).all():
        for k in range(int(trips[0])):
            start = body.run(frame, (first + (k * stride).astype(first.dtype), *start))
        return start
    going = _Carried(frame, body.captured, start)
    trips = np.broadcast_to(trips, len(frame.programs))
    first, stride = (np.broadcast_to(v, len(frame.programs)) for v in (first, stride))
    for k in range(int(trips.max())):
        going.keep(trips[going.rows] > k, going.arguments)
        index = first[going.rows] + (k * stride[going.rows]).astype(first.dtype)
        going.arguments = body.run(going.frame, (index, *going.arguments))
    return going.finish(going.arguments)


def _while(operation: Operation, planner: Planner) -> Step:
    carried = tuple(o.number for o in operation.operands)
    numbers = tuple(r.number for r in operation.results)
    before, after = (planner.region(region) for region in operation.regions)
    captured = tuple(sorted({*before.captured, *after.captured}))

    def step(values: list[Array | None], frame: Frame) -> None:
        start = tuple(values[n] for n in carried)
        going = _Carried(frame, captured, start)  # type: ignore[arg-type]  # SSA: defined
        for _ in range(frame.limit):
            condition, *passed = before.run(going.frame, going.arguments)
            going.arguments = tuple(passed)
            if not condition.any():
                _assign(values, numbers, going.finish(tuple(passed)))
                return
            going.keep(np.broadcast_to(condition, len(going.rows)), tuple(passed))
            going.arguments = after.run(going.frame, going.arguments)
        raise EndlessError(operation.location)

    return step


def _call(operation: Operation, planner: Planner) -> Step:
    callee = planner.module.functions[str(operation.attributes["callee"])]
    body = planner.function(callee)
    inputs = tuple(o.number for o in operation.operands)
    parameters = tuple(a.number for a in callee.arguments)
    numbers = tuple(r.number for r in operation.results)

    def step(values: list[Array | None], frame: Frame) -> None:
        # Numbers are unique in the module, and no kernel calls itself: the caller's frame has room.
        for source, target in zip(inputs, parameters, strict=True):
            values[target] = values[source]
        _assign(values, numbers, body.run(frame))

    return step


CONTROL: dict[str, Maker] = {"scf.if": _if, "scf.for": _for, "scf.while": _while, "tt.call": _call}
