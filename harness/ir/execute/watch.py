"""Watching integer operations: which ones wrap, round or divide a negative value, and in which programs.

What the checker claims of an operation is seen here when the operation runs. Slow: every result is computed a
second time in Python's integers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from kvproof.harness.ir.execute.plan import Frame, Maker, Planner, Step
from kvproof.harness.ir.execute.report import Kind, Report
from kvproof.harness.ir.execute.values import Array
from kvproof.harness.ir.reader import Operation

Exact = Callable[[Array, Array], Array]

_EXACT: Mapping[str, Exact] = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.shli": lambda a, b: a * 2 ** np.minimum(np.maximum(b, 0), 64),
}
_UNARY: Mapping[str, Callable[[Array], Array]] = {"arith.trunci": lambda a: a, "math.absi": abs}
_ROUNDED = ("arith.sitofp", "arith.uitofp", "arith.truncf", "arith.addf", "arith.mulf", "arith.subf")
_DIVIDING = ("arith.divsi", "arith.remsi", "arith.shrsi", "arith.andi")


def watched(makers: Mapping[str, Maker]) -> dict[str, Maker]:
    """The makers with a watch on every operation that can wrap, round or divide."""
    names = [*_EXACT, *_UNARY, *_ROUNDED, *_DIVIDING]
    return {**makers, **{name: _watching(makers[name]) for name in names if name in makers}}


def _watching(maker: Maker) -> Maker:
    def make(operation: Operation, planner: Planner) -> Step:
        step = maker(operation, planner)
        if operation.result.type.element == "i1":
            return step
        numbers = [o.number for o in operation.operands]
        result = operation.result.number

        def watch(values: list[Array | None], frame: Frame) -> None:
            step(values, frame)
            inputs = [values[n] for n in numbers]
            if all(v is not None for v in inputs) and len(frame.programs):
                _look(operation, inputs, values[result], frame)  # type: ignore[arg-type]  # SSA: defined

        return watch

    return make


def _look(operation: Operation, inputs: list[Array], result: Array, frame: Frame) -> None:
    name = operation.name
    if name in _DIVIDING:
        bad = inputs[0] < 0
        words, kind = f"{name} of a negative value", Kind.SENTINEL
    elif name in _ROUNDED:
        bad = _rounds(name, inputs, result)
        words, kind = f"{name} rounds", Kind.WRAP
    else:
        wide = [v.astype(object) for v in inputs]
        exact = _UNARY[name](*wide) if name in _UNARY else _EXACT[name](*wide)
        bad = np.asarray(exact != result.astype(object), bool)
        words, kind = f"{name} wraps", Kind.WRAP
    if not bad.any():
        return
    rows = np.unique(np.argwhere(bad)[:, 0]) if bad.shape[0] > 1 else np.arange(len(frame.programs))
    programs = tuple(frame.accesses.program(int(frame.programs[row])) for row in rows[:64].tolist())
    frame.accesses.reports.append(Report(kind, words, operation.location, programs=programs, count=int(bad.sum())))


def _rounds(name: str, inputs: list[Array], result: Array) -> Array:
    if name in {"arith.sitofp", "arith.uitofp"}:
        return np.asarray(result.astype(object) != inputs[0].astype(object), bool)
    if not np.issubdtype(result.dtype, np.floating) or not all(
        np.issubdtype(v.dtype, np.floating) for v in inputs
    ):
        return np.zeros(result.shape, bool)
    wide = [v.astype(np.float64) for v in inputs]
    exact = {
        "arith.truncf": lambda: wide[0],
        "arith.addf": lambda: wide[0] + wide[1],
        "arith.mulf": lambda: wide[0] * wide[1],
        "arith.subf": lambda: wide[0] - wide[1],
    }[name]()
    return np.asarray(exact != result.astype(np.float64), bool)
