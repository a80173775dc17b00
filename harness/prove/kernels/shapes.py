"""Meaning of the operations that only move elements: splats, broadcasts, reshapes, joins."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kvproof.harness.ir.reader import Operation
from kvproof.harness.prove.kernels.program import Coordinates, Program
from kvproof.harness.prove.kernels.values import Choice, Pointer, Unmodelled
from kvproof.harness.solve.term import Term, add, div, integer, ite, le, mod, not_, scale

ZERO = integer(0)
Meaning = Callable[[Program, Operation, Coordinates], "Term | Pointer"]


def choose(
    condition: Term, then: Term | Pointer, otherwise: Term | Pointer, operation: Operation
) -> Term | Pointer:
    """One of two values, which must be of one kind.

    Raises:
        Unmodelled: pointers that count in different units.
    """
    if isinstance(then, Pointer) and isinstance(otherwise, Pointer):
        if then.unit != otherwise.unit:
            raise Unmodelled("a choice between pointers that count in different units", operation)
        if isinstance(then, Choice) or isinstance(otherwise, Choice) or then.argument != otherwise.argument:
            return Choice(condition, then, otherwise, operation)
        return Pointer(then.argument, ite(condition, then.offset, otherwise.offset), then.unit)
    assert not isinstance(then, Pointer)  # one type on both sides
    assert not isinstance(otherwise, Pointer)
    return ite(condition, then, otherwise)


def _splat(program: Program, operation: Operation, _at: Coordinates) -> Term | Pointer:
    return program.value(operation.operands[0], ())


def _unsplat(program: Program, operation: Operation, _at: Coordinates) -> Term | Pointer:
    return program.value(operation.operands[0], (ZERO,) * len(operation.operands[0].type.shape))


def _broadcast(program: Program, operation: Operation, at: Coordinates) -> Term | Pointer:
    source = operation.operands[0].type.shape
    return program.value(
        operation.operands[0], tuple(ZERO if n == 1 else c for n, c in zip(source, at, strict=True))
    )


def _expand_dims(program: Program, operation: Operation, at: Coordinates) -> Term | Pointer:
    axis = int(operation.attributes["axis"])
    return program.value(operation.operands[0], (*at[:axis], *at[axis + 1 :]))


def _transpose(program: Program, operation: Operation, at: Coordinates) -> Term | Pointer:
    order = [int(axis) for axis in operation.attributes["order"]]
    inner: list[Term] = [ZERO] * len(order)
    for place, axis in enumerate(order):
        inner[axis] = at[place]
    return program.value(operation.operands[0], tuple(inner))


def _reshape(program: Program, operation: Operation, at: Coordinates) -> Term | Pointer:
    flat = ZERO
    size = 1
    for extent, c in zip(operation.result.type.shape, at, strict=True):
        flat = add(scale(extent, flat), c)
        size *= extent
    if "allow_reorder" in operation.words:
        # The order of elements is left open: this is some one of them.
        flat = program.unknown(f"place in {operation.result.name}.{operation.result.number}", at, 0, size - 1)
    inner: list[Term] = []
    for extent in reversed(operation.operands[0].type.shape):
        inner.insert(0, mod(flat, integer(extent)))
        flat = div(flat, integer(extent))
    return program.value(operation.operands[0], tuple(inner))


def _join(program: Program, operation: Operation, at: Coordinates) -> Term | Pointer:
    first = le(at[-1], ZERO)
    a, b = operation.operands
    then, otherwise = program.value(a, at[:-1], first), program.value(b, at[:-1], not_(first))
    return choose(first, then, otherwise, operation)


def _range(_program: Program, operation: Operation, at: Coordinates) -> Term:
    return add(integer(int(operation.attributes["start"])), at[0])


SHAPES: Mapping[str, Meaning] = {
    "tt.splat": _splat,
    "tt.unsplat": _unsplat,
    "tt.broadcast": _broadcast,
    "tt.expand_dims": _expand_dims,
    "tt.trans": _transpose,
    "tt.reshape": _reshape,
    "tt.join": _join,
    "tt.make_range": _range,
}
"""Shape operations by name."""
