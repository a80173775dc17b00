"""Reductions, scans and dot products."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from kvproof.harness.ir.execute.formats import from_single, to_single
from kvproof.harness.ir.execute.integers import BINARY
from kvproof.harness.ir.execute.plan import Frame, Maker, Planner, RegionPlan, Step
from kvproof.harness.ir.execute.values import Array, UnsupportedOperation, carrier, full
from kvproof.harness.ir.reader import Operation, Type

_WHOLE: Mapping[str, np.ufunc] = {
    "arith.addi": np.add,
    "arith.muli": np.multiply,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    "arith.addf": np.add,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
}
"""Combining operations that numpy reduces by itself."""


def _single(operation: Operation) -> str:
    """The combining operation, where it is one plain operation of both arguments in order."""
    block = operation.regions[0].block
    if len(block.operations) != 2 or len(block.arguments) != 2:
        return ""
    combine, leave = block.operations
    plain = combine.operands == block.arguments and leave.operands == combine.results
    return combine.name if plain and combine.name in _WHOLE else ""


def _whole(name: str, value: Array, element: str, axis: int) -> Array:
    ufunc = _WHOLE[name]
    if value.dtype == np.bool_ and name in {"arith.addi", "arith.muli"}:
        ufunc = np.logical_xor if name == "arith.addi" else np.logical_and
    if not name.endswith("f"):
        return ufunc.reduce(value, axis=axis, dtype=value.dtype)
    # float64 and one rounding: the device's order of additions is open, the true sum is not.
    wide = to_single(value, element)
    if ufunc is np.add:
        return from_single(np.add.reduce(wide, axis=axis, dtype=np.float64), element)
    return from_single(ufunc.reduce(wide, axis=axis), element)


class _Combiner:
    """The combining region as a function on tuples of arrays of any common shape."""

    def __init__(self, operation: Operation, planner: Planner) -> None:
        self.plan: RegionPlan = planner.region(operation.regions[0])
        self.pointwise = all(not o.regions for o in operation.regions[0].walk())
        if not self.pointwise:
            raise UnsupportedOperation("a combining function with control flow")

    def __call__(self, frame: Frame, left: tuple[Array, ...], right: tuple[Array, ...]) -> tuple[Array, ...]:
        results = self.plan.run(frame, (*left, *right))
        return tuple(np.broadcast_to(r, left[0].shape) for r in results)


def _reduce(operation: Operation, planner: Planner) -> Step:
    axis = int(operation.attributes["axis"]) + 1
    types = [o.type for o in operation.operands]
    inputs = [o.number for o in operation.operands]
    numbers = [r.number for r in operation.results]
    single = _single(operation)
    if single:

        def step(values: list[Array | None], _frame: Frame) -> None:
            value = full(values[inputs[0]], types[0])  # type: ignore[arg-type]  # SSA: defined
            values[numbers[0]] = _whole(single, value, types[0].element, axis)

        return step
    combine = _Combiner(operation, planner)

    def fold(values: list[Array | None], frame: Frame) -> None:
        parts = _together([values[n] for n in inputs], types)
        parts = tuple(np.moveaxis(p, axis, -1) for p in parts)
        # Neighbours first: a combining function need not be commutative.
        while parts[0].shape[-1] > 1:
            even, odd = (tuple(p[..., start::2] for p in parts) for start in (0, 1))
            parts = combine(frame, even, odd)
        for number, part in zip(numbers, parts, strict=True):
            values[number] = part[..., 0]

    return fold


def _together(values: list[Array | None], types: list[Type]) -> tuple[Array, ...]:
    """The values at full extent, with one common number of programs."""
    wide = [full(v, t) for v, t in zip(values, types, strict=True)]  # type: ignore[arg-type]  # SSA: defined
    count = max(v.shape[0] for v in wide)
    return tuple(np.broadcast_to(v, (count, *v.shape[1:])) for v in wide)


def _scan(operation: Operation, planner: Planner) -> Step:
    axis = int(operation.attributes["axis"]) + 1
    reverse = bool(operation.attributes.get("reverse", False))
    types = [o.type for o in operation.operands]
    inputs = [o.number for o in operation.operands]
    numbers = [r.number for r in operation.results]
    single = _single(operation)
    combine = None if single else _Combiner(operation, planner)

    def step(values: list[Array | None], frame: Frame) -> None:
        parts = tuple(np.moveaxis(p, axis, -1) for p in _together([values[n] for n in inputs], types))
        if reverse:
            parts = tuple(p[..., ::-1] for p in parts)
        if combine is None:
            parts = (_accumulate(single, parts[0], types[0].element),)
        else:
            parts = _prefixes(combine, frame, parts)
        for number, part in zip(numbers, parts, strict=True):
            values[number] = np.moveaxis(part[..., ::-1] if reverse else part, -1, axis)

    return step


def _accumulate(name: str, value: Array, element: str) -> Array:
    ufunc = _WHOLE[name]
    if not name.endswith("f"):
        return ufunc.accumulate(value, axis=-1, dtype=value.dtype)
    return from_single(ufunc.accumulate(to_single(value, element).astype(np.float64), axis=-1), element)


def _prefixes(combine: _Combiner, frame: Frame, parts: tuple[Array, ...]) -> tuple[Array, ...]:
    """Inclusive prefixes in log(n) combining steps (Hillis and Steele)."""
    reach, count = 1, parts[0].shape[-1]
    while reach < count:
        joined = combine(frame, tuple(p[..., :-reach] for p in parts), tuple(p[..., reach:] for p in parts))
        parts = tuple(np.concatenate([p[..., :reach], j], axis=-1) for p, j in zip(parts, joined, strict=True))
        reach *= 2
    return parts


def _dot(operation: Operation, _planner: Planner) -> Step:
    types = [o.type for o in operation.operands]
    a, b, c = (o.number for o in operation.operands)
    element = operation.result.type.element
    r = operation.result.number

    def step(values: list[Array | None], _frame: Frame) -> None:
        left, right, start = (full(values[n], t) for n, t in zip((a, b, c), types, strict=True))  # type: ignore[arg-type]
        if types[0].is_int:
            product = np.matmul(left.astype(np.int64), right.astype(np.int64))
            values[r] = BINARY["arith.addi"](product.astype(carrier(element)), start)
            return
        wide = [to_single(v, t.element).astype(np.float64) for v, t in ((left, types[0]), (right, types[1]))]
        total = np.matmul(*wide) + to_single(start, element).astype(np.float64)
        values[r] = from_single(total, element)

    return step


Reduction = Callable[[Operation, Planner], Step]

REDUCTIONS: dict[str, Maker] = {"tt.reduce": _reduce, "tt.scan": _scan, "tt.dot": _dot}
