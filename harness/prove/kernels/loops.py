"""Loops: a counted loop is one iteration of an unknown number; a value that grows evenly is a function of it.

A value carried through a loop that neither stays nor grows by a fixed amount is some value of its type: true of
every iteration, and perhaps too little to prove what depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvproof.harness.ir.reader import Operation, Value
from kvproof.harness.prove.kernels.arithmetic import fit
from kvproof.harness.prove.kernels.program import Coordinates, Given, Program
from kvproof.harness.prove.kernels.values import Pointer, Unmodelled
from kvproof.harness.solve.term import (
    Term,
    add,
    apply,
    div,
    integer,
    ite,
    lt,
    mul,
    neg,
    sub,
    walk,
)


@dataclass(frozen=True)
class Iteration:
    """One iteration of a loop, of unknown number.

    Attributes:
        number: the iteration's variable.
        conditions: what holds in it.
    """

    number: Term
    conditions: tuple[Term, ...]


def enter(program: Program, operation: Operation) -> Iteration:
    """Give the arguments of a loop's body, for one iteration of unknown number."""
    number = program.scope.fresh(f"iteration_{_tag(operation)}{program.suffix}", 0, 2**31 - 2)
    if operation.name == "scf.while":
        return _enter_while(program, operation, number)
    low, stop, step = (program.term(o) for o in operation.operands[:3])
    index = add(low, mul(number, step))
    body = operation.regions[0].block
    induction, *carried = body.arguments
    program.given[induction.number] = lambda _at: index
    program.loops.append(number)
    for place, argument in enumerate(carried):
        program.given[argument.number] = _carried(program, operation, place, number)
    return Iteration(number, (lt(index, stop),))


def _enter_while(program: Program, operation: Operation, number: Term) -> Iteration:
    before, after = (region.block for region in operation.regions)
    program.loops.append(number)
    for argument in before.arguments:
        program.given[argument.number] = _some(program, argument, f"carried {argument.name}.{argument.number}")
    condition, *passed = before.operations[-1].operands
    for argument, value in zip(after.arguments, passed, strict=True):
        program.given[argument.number] = _same_as(program, value)
    return Iteration(number, (program.term(condition),))


def leave(program: Program, _operation: Operation) -> None:
    """Behind the body of the loop entered last."""
    program.loops.pop()


def _tag(operation: Operation) -> int:
    block = operation.regions[0].block
    if block.arguments:
        return block.arguments[0].number
    return block.operations[0].results[0].number if block.operations[0].results else id(operation)


def _same_as(program: Program, value: Value) -> Given:
    return lambda at: program.value(value, at)


def _some(program: Program, value: Value, name: str) -> Given:
    def given(at: Coordinates) -> Term:
        from kvproof.harness.prove.kernels.meaning import opaque  # noqa: PLC0415  (it needs this module)

        return opaque(program, value, at, name)

    return given


def _carried(program: Program, operation: Operation, place: int, number: Term) -> Given:
    start = operation.operands[3 + place]
    argument = operation.regions[0].block.arguments[1 + place]

    def given(at: Coordinates) -> Term | Pointer:
        first = program.value(start, at)
        growth = growth_of(program, operation, place, at)
        if growth is None:
            return _some(program, argument, f"carried {argument.name}.{argument.number}")(at)
        return _advanced(program, operation, argument, first, mul(number, growth))

    return given


def _advanced(
    program: Program, operation: Operation, value: Value, first: Term | Pointer, by: Term
) -> Term | Pointer:
    if isinstance(first, Pointer):
        return Pointer(first.argument, add(first.offset, by), first.unit)
    return fit(add(first, by), value.type.width, operation, program)


def growth_of(program: Program, operation: Operation, place: int, at: Coordinates) -> Term | None:
    """By how much each iteration increases a carried value; None if that is not the same for all."""
    argument = operation.regions[0].block.arguments[1 + place]
    if not (argument.type.is_int or argument.type.is_pointer) or argument.type.element == "i1":
        return None
    trial = program.trial()
    mark = f"before {argument.number}"
    first = program.value(operation.operands[3 + place], at)
    trial.given[argument.number] = lambda c: _marked(first, apply(mark, list(c) or [integer(0)]))
    for other, value in enumerate(operation.regions[0].block.arguments[1:]):
        if other != place:
            trial.given[value.number] = _some(trial, value, f"before {value.number}")
    try:
        after = trial.value(operation.regions[0].block.operations[-1].operands[place], at)
    except Unmodelled:
        return None
    own = apply(mark, list(at) or [integer(0)])
    growth = sub(after.offset if isinstance(after, Pointer) else after, own)
    if isinstance(after, Pointer) and isinstance(first, Pointer) and after.argument != first.argument:
        return None
    varies = {t for t in walk(growth) if t in trial.loops[-1:] or (t.op == "app" and "before " in str(t.payload))}
    return None if varies else growth


def _marked(first: Term | Pointer, mark: Term) -> Term | Pointer:
    return Pointer(first.argument, mark, first.unit) if isinstance(first, Pointer) else mark


def trips(program: Program, operation: Operation) -> Term:
    """How often the body of a counted loop runs."""
    low, stop, step = (program.term(o) for o in operation.operands[:3])
    count = neg(div(sub(low, stop), step))
    return ite(lt(low, stop), count, integer(0))


def loop_result(program: Program, operation: Operation, place: int, at: Coordinates) -> Term | Pointer:
    """A loop's result, after its last iteration."""
    value = operation.results[place]
    if operation.name == "scf.for":
        body = program.trial()
        # Outside the loop its induction variable means nothing; growth must not depend on it.
        induction = operation.regions[0].block.arguments[0]
        number = program.scope.fresh(f"iteration_{_tag(operation)}{program.suffix}", 0, 2**31 - 2)
        body.loops.append(number)
        body.given[induction.number] = lambda _at: add(
            program.term(operation.operands[0]), mul(number, program.term(operation.operands[2]))
        )
        growth = growth_of(body, operation, place, at)
        if growth is not None:
            first = program.value(operation.operands[3 + place], at)
            return _advanced(program, operation, value, first, mul(trips(program, operation), growth))
    if value.type.is_pointer:
        raise Unmodelled("a pointer that a loop moves unevenly", operation)
    return _some(program, value, f"result {value.name}.{value.number}")(at)
