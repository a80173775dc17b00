"""Loops: a counted loop is one iteration of an unknown number; a value that grows evenly is a function of it.

A value carried through a loop that neither stays nor grows by a fixed amount is some value of its type: true of
every iteration, and perhaps too little to prove what depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvproof.harness.ir.reader import Operation, Value
from kvproof.harness.prove.kernels.arithmetic import fit
from kvproof.harness.prove.kernels.program import Context, Coordinates, Given, Program
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
    not_,
    sub,
    walk,
)

ROUNDS = 4
"""Rounds of a loop that is not counted; what is shown of it holds so far."""


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
    if operation.attributes.get("unsigned"):
        raise Unmodelled("an unsigned range", operation)
    number = program.scope.fresh(f"iteration_{_tag(operation)}{program.suffix}", 0, 2**31 - 2)
    low, stop, step = (program.term(o) for o in operation.operands[:3])
    index = add(low, mul(number, step))
    body = operation.regions[0].block
    induction, *carried = body.arguments
    program.give(induction, lambda _at: index)
    program.loops.append(number)
    for place, argument in enumerate(carried):
        program.give(argument, _carried(program, operation, place, number))
    return Iteration(number, (lt(index, stop),))


def enter_round(program: Program, operation: Operation, outer: Context, number: int) -> None:
    """Give the arguments of one round of an unrolled loop: from before the loop, or from the round before."""
    before, after = (region.block for region in operation.regions)
    starts: Sequence[Value] = operation.operands if number == 0 else after.operations[-1].operands
    former = outer if number == 0 else (*outer, number - 1)
    for argument, value in zip(before.arguments, starts, strict=True):
        program.give(argument, _in_round(program, value, former))
    for argument, value in zip(after.arguments, before.operations[-1].operands[1:], strict=True):
        program.give(argument, _in_round(program, value, program.context))


def _in_round(program: Program, value: Value, context: Context) -> Given:
    def given(at: Coordinates) -> Term | Pointer:
        with program.round(context):
            return program.value(value, at)

    return given


def leave(program: Program, _operation: Operation) -> None:
    """Behind the body of the loop entered last."""
    program.loops.pop()


def _tag(operation: Operation) -> int:
    block = operation.regions[0].block
    if block.arguments:
        return block.arguments[0].number
    return block.operations[0].results[0].number if block.operations[0].results else id(operation)


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
        return _advanced(program, operation, place, first, mul(number, growth))

    return given


def _advanced(
    program: Program, operation: Operation, place: int, first: Term | Pointer, by: Term
) -> Term | Pointer:
    if isinstance(first, Pointer):
        return Pointer(first.argument, add(first.offset, by), first.unit)
    last = operation.regions[0].block.operations[-1].operands[place]
    definition = program.scope.definitions.get(last.number)
    # Where it wraps is where it grows, not where the loop begins.
    grows = definition.operation if definition is not None and definition.operation is not None else operation
    return fit(add(first, by), last.type.width, grows, program)


def growth_of(program: Program, operation: Operation, place: int, at: Coordinates) -> Term | None:
    """By how much each iteration increases a carried value; None if that is not the same for all."""
    argument = operation.regions[0].block.arguments[1 + place]
    if not (argument.type.is_int or argument.type.is_pointer) or argument.type.element == "i1":
        return None
    trial = program.trial()
    mark = f"before {argument.number}"
    first = program.value(operation.operands[3 + place], at)
    trial.give(argument, lambda c: _marked(first, apply(mark, list(c) or [integer(0)])))
    for other, value in enumerate(operation.regions[0].block.arguments[1:]):
        if other != place:
            trial.give(value, _some(trial, value, f"before {value.number}"))
    try:
        after = trial.value(operation.regions[0].block.operations[-1].operands[place], at)
    except Unmodelled:
        return None
    own = apply(mark, list(at) or [integer(0)])
    growth = sub(after.offset if isinstance(after, Pointer) else after, own)
    if isinstance(after, Pointer) and isinstance(first, Pointer) and not _alike(after, first):
        return None
    varies = {t for t in walk(growth) if t in trial.loops[-1:] or (t.op == "app" and "before " in str(t.payload))}
    return None if varies else growth


def _alike(one: Pointer, two: Pointer) -> bool:
    return (one.argument, one.unit) == (two.argument, two.unit)


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
    if operation.name == "scf.for" and not operation.attributes.get("unsigned"):
        body = program.trial()
        # Outside the loop its induction variable means nothing; growth must not depend on it.
        induction = operation.regions[0].block.arguments[0]
        number = program.scope.fresh(f"iteration_{_tag(operation)}{program.suffix}", 0, 2**31 - 2)
        body.loops.append(number)
        body.give(
            induction,
            lambda _at: add(program.term(operation.operands[0]), mul(number, program.term(operation.operands[2]))),
        )
        growth = growth_of(body, operation, place, at)
        if growth is not None:
            first = program.value(operation.operands[3 + place], at)
            return _advanced(program, operation, place, first, mul(trips(program, operation), growth))
    elif operation.name == "scf.while":
        return _last_round(program, operation, place, at)
    if value.type.is_pointer:
        raise Unmodelled("a pointer that a loop moves unevenly", operation)
    return _some(program, value, f"result {value.name}.{value.number}")(at)


def _last_round(program: Program, operation: Operation, place: int, at: Coordinates) -> Term | Pointer:
    """A result of an unrolled loop: what the round passes on in which its condition fails."""
    condition, *passed = operation.regions[0].block.operations[-1].operands
    outer = program.context
    found: Term | Pointer | None = None
    for number in reversed(range(ROUNDS)):
        with program.round((*outer, number)):
            value = program.value(passed[place], at)
            ends = not_(program.term(condition))
        if isinstance(value, Pointer) or isinstance(found, Pointer):
            raise Unmodelled("a pointer that a loop moves unevenly", operation)
        found = value if found is None else ite(ends, value, found)
    assert found is not None  # there is at least one round
    return found
