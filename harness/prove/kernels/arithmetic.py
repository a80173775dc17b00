"""Meaning of integer operations on terms: mathematical results, with the demands under which they are right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from kvproof.harness.ir.reader import Operation
from kvproof.harness.prove.kernels.intervals import Interval
from kvproof.harness.prove.kernels.values import Demand, DemandKind, Unmodelled
from kvproof.harness.solve.term import (
    BOOL,
    TRUE,
    Term,
    add,
    and_,
    boolean,
    div,
    eq,
    integer,
    ite,
    le,
    linear,
    lt,
    mod,
    mul,
    neg,
    not_,
    or_,
    scale,
    sub,
)

ZERO, ONE = integer(0), integer(1)


class Context(Protocol):
    """What the meaning of an operation may ask and state."""

    def demand(self, demand: Demand) -> None:
        """State a condition under which the result is right."""
        ...

    def interval(self, term: Term) -> Interval:
        """Range of a term."""
        ...

    def is_element(self, term: Term) -> bool:
        """Whether a term is an element of one of the contract's index tensors."""
        ...


def fit(term: Term, width: int, operation: Operation, context: Context, *, unsigned: bool = False) -> Term:
    """The term, demanded to fit a signed (or unsigned) integer of this width."""
    low, high = (0, 2**width - 1) if unsigned else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)
    least, most = context.interval(term)
    if least is None or most is None or least < low or most > high:
        within = and_(le(integer(low), term), le(term, integer(high)))
        context.demand(Demand(DemandKind.FITS, within, operation, term))
    return term


def _certainly_at_least(term: Term, bound: int, context: Context) -> bool:
    least, _ = context.interval(term)
    return least is not None and least >= bound


def as_unsigned(term: Term, width: int, context: Context) -> Term:
    """The value of the same bits read as unsigned."""
    if _certainly_at_least(term, 0, context):
        return term
    return ite(le(ZERO, term), term, add(term, integer(2**width)))


def as_signed(term: Term, width: int, context: Context) -> Term:
    """The value of unsigned bits read as signed."""
    _, most = context.interval(term)
    if most is not None and most < 2 ** (width - 1):
        return term
    return ite(lt(term, integer(2 ** (width - 1))), term, sub(term, integer(2**width)))


def _divisor(b: Term, operation: Operation, context: Context) -> None:
    least, most = context.interval(b)
    if not ((least is not None and least > 0) or (most is not None and most < 0)):
        context.demand(Demand(DemandKind.DIVISOR, not_(eq(b, ZERO)), operation, b))


def truncated_quotient(a: Term, b: Term, context: Context) -> Term:
    """``a / b`` rounded towards zero."""
    if _certainly_at_least(b, 1, context):
        if _certainly_at_least(a, 0, context):
            return div(a, b)
        return ite(le(ZERO, a), div(a, b), neg(div(neg(a), b)))
    magnitude = ite(le(ZERO, b), b, neg(b))
    quotient = ite(le(ZERO, a), div(a, magnitude), neg(div(neg(a), magnitude)))
    return ite(le(ZERO, b), quotient, neg(quotient))


def _div_signed(a: Term, b: Term, width: int, operation: Operation, context: Context) -> Term:
    _divisor(b, operation, context)
    _no_sentinel(a, operation, context)
    return fit(truncated_quotient(a, b, context), width, operation, context)


def _rem_signed(a: Term, b: Term, width: int, operation: Operation, context: Context) -> Term:  # noqa: ARG001
    _divisor(b, operation, context)
    _no_sentinel(a, operation, context)
    if _certainly_at_least(b, 1, context):
        if _certainly_at_least(a, 0, context):
            return mod(a, b)
        return ite(le(ZERO, a), mod(a, b), neg(mod(neg(a), b)))
    return sub(a, mul(b, truncated_quotient(a, b, context)))


def _no_sentinel(a: Term, operation: Operation, context: Context) -> None:
    """A negative element is a sentinel: divided, it names a place that is somebody's.

    A dividend that only arithmetic makes negative is another matter: where it ends up is asked on its own.
    """
    if _certainly_at_least(a, 0, context):
        return
    for element, guard, _ in elements(a, context.is_element):
        if not _certainly_at_least(element, 0, context):
            holds = or_(not_(guard), le(ZERO, element), le(ZERO, a))
            context.demand(Demand(DemandKind.NOT_NEGATIVE, holds, operation, element))


def elements(
    term: Term, is_element: Callable[[Term], bool], guard: Term = TRUE, factor: int = 1
) -> Iterator[tuple[Term, Term, int]]:
    """Elements of tensors that a term is linear in: (element, where the term is, its factor).

    The factor of one that is multiplied by something variable is 2: not 1.
    """
    for atom, times in linear(term)[1].items():
        if is_element(atom):
            yield atom, guard, times * factor
        elif atom.op == "mul":
            for part in atom.args:
                yield from elements(part, is_element, guard, 2)
        elif atom.op == "ite":
            condition, then, otherwise = atom.args
            yield from elements(then, is_element, and_(guard, condition), times * factor)
            yield from elements(otherwise, is_element, and_(guard, not_(condition)), times * factor)


def _unsigned_quotient(a: Term, b: Term, width: int, operation: Operation, context: Context) -> Term:
    _divisor(b, operation, context)
    return as_signed(div(as_unsigned(a, width, context), as_unsigned(b, width, context)), width, context)


def _unsigned_remainder(a: Term, b: Term, width: int, operation: Operation, context: Context) -> Term:
    _divisor(b, operation, context)
    return as_signed(mod(as_unsigned(a, width, context), as_unsigned(b, width, context)), width, context)


def _power(b: Term, width: int, operation: Operation) -> int:
    if not b.is_const or not 0 <= b.payload < width:
        raise Unmodelled("a shift by an amount that is no constant", operation)
    return 2**b.payload


def _shift_left(a: Term, b: Term, width: int, operation: Operation, context: Context) -> Term:
    return fit(scale(_power(b, width, operation), a), width, operation, context)


def _shift_right(a: Term, b: Term, width: int, operation: Operation, context: Context) -> Term:
    _no_sentinel(a, operation, context)
    return div(a, integer(_power(b, width, operation)))


def _shift_right_unsigned(a: Term, b: Term, width: int, operation: Operation, context: Context) -> Term:
    power = integer(_power(b, width, operation))
    return as_signed(div(as_unsigned(a, width, context), power), width, context)


def _and(a: Term, b: Term, width: int, operation: Operation, context: Context) -> Term:  # noqa: ARG001
    if a.sort == BOOL:
        return and_(a, b)
    if a.is_const:
        a, b = b, a
    if not b.is_const:
        raise Unmodelled("a bitwise and of two variables", operation)
    mask = b.payload
    if mask >= 0 and (mask + 1) & mask == 0:
        _no_sentinel(a, operation, context)
        return mod(a, integer(mask + 1))
    low = -mask
    if mask < 0 and low & (low - 1) == 0:
        return sub(a, mod(a, integer(low)))
    raise Unmodelled(f"a bitwise and with {mask:#x}", operation)


def _or(a: Term, b: Term, width: int, operation: Operation, context: Context) -> Term:  # noqa: ARG001
    if a.sort == BOOL:
        return or_(a, b)
    for high, low in ((a, b), (b, a)):
        least, most = context.interval(low)
        constant, atoms = linear(high)
        if least is not None and most is not None and least >= 0:
            power = 1 << most.bit_length()
            if all(c % power == 0 for c in (constant, *atoms.values())):
                return add(high, low)
    raise Unmodelled("a bitwise or of values that may share bits", operation)


def _xor(a: Term, b: Term, width: int, operation: Operation, context: Context) -> Term:  # noqa: ARG001
    if a.sort == BOOL:
        return not_(eq(a, b))
    for x, y in ((a, b), (b, a)):
        if y.is_const and y.payload == -1:
            return sub(integer(-1), x)
    raise Unmodelled("a bitwise exclusive or", operation)


def smaller(a: Term, b: Term, context: Context) -> Term:
    """The smaller of two integers."""
    (a_low, a_high), (b_low, b_high) = context.interval(a), context.interval(b)
    if a_high is not None and b_low is not None and a_high <= b_low:
        return a
    if b_high is not None and a_low is not None and b_high <= a_low:
        return b
    return ite(le(a, b), a, b)


def larger(a: Term, b: Term, context: Context) -> Term:
    """The larger of two integers."""
    least = smaller(a, b, context)
    if least is a or least is b:
        return b if least is a else a
    return ite(le(b, a), a, b)


Meaning = Callable[[Term, Term, int, Operation, Context], Term]


def _linear(combine: Callable[[Term, Term], Term]) -> Meaning:
    def meaning(a: Term, b: Term, width: int, operation: Operation, context: Context) -> Term:
        return fit(combine(a, b), width, operation, context)

    return meaning


def _unsigned_pick(pick: Callable[[Term, Term, Context], Term]) -> Meaning:
    def meaning(a: Term, b: Term, width: int, operation: Operation, context: Context) -> Term:  # noqa: ARG001
        picked = pick(as_unsigned(a, width, context), as_unsigned(b, width, context), context)
        return as_signed(picked, width, context)

    return meaning


BINARY: Mapping[str, Meaning] = {
    "arith.addi": _linear(add),
    "arith.subi": _linear(sub),
    "arith.muli": _linear(mul),
    "arith.divsi": _div_signed,
    "arith.remsi": _rem_signed,
    "arith.divui": _unsigned_quotient,
    "arith.remui": _unsigned_remainder,
    "arith.floordivsi": lambda a, b, width, op, ctx: (_divisor(b, op, ctx), fit(div(a, b), width, op, ctx))[1],
    "arith.ceildivsi": lambda a, b, width, op, ctx: (
        _divisor(b, op, ctx),
        fit(neg(div(neg(a), b)), width, op, ctx),
    )[1],
    "arith.andi": _and,
    "arith.ori": _or,
    "arith.xori": _xor,
    "arith.shli": _shift_left,
    "arith.shrsi": _shift_right,
    "arith.shrui": _shift_right_unsigned,
    "arith.minsi": lambda a, b, _w, _o, ctx: smaller(a, b, ctx),
    "arith.maxsi": lambda a, b, _w, _o, ctx: larger(a, b, ctx),
    "arith.minui": _unsigned_pick(smaller),
    "arith.maxui": _unsigned_pick(larger),
}
"""Integer operations by name. On conditions, ``and``, ``or`` and ``xor`` are the logical ones."""


def compare(predicate: str, a: Term, b: Term, width: int, context: Context) -> Term:
    """The condition of an ``arith.cmpi``."""
    if a.sort == BOOL:
        same = eq(a, b)
        return {"eq": same, "ne": not_(same)}.get(predicate) or _compare_bits(predicate, a, b)
    if predicate[0] == "u":
        a, b = as_unsigned(a, width, context), as_unsigned(b, width, context)
        predicate = "s" + predicate[1:]
    return {
        "eq": lambda: eq(a, b),
        "ne": lambda: not_(eq(a, b)),
        "slt": lambda: lt(a, b),
        "sle": lambda: le(a, b),
        "sgt": lambda: lt(b, a),
        "sge": lambda: le(b, a),
    }[predicate]()


def _compare_bits(predicate: str, a: Term, b: Term) -> Term:
    # A signed bit that is set is -1, so the order turns round.
    if predicate[0] == "s":
        a, b = b, a
    return {
        "lt": and_(not_(a), b),
        "le": or_(not_(a), b),
        "gt": and_(a, not_(b)),
        "ge": or_(a, not_(b)),
    }[predicate[1:]]


def bit_as_int(bit: Term, *, signed: bool) -> Term:
    """0 or 1 (or -1 if signed) of a condition."""
    return ite(bit, integer(-1 if signed else 1), ZERO)


def constant_bit(value: int) -> Term:
    """The condition of an i1 constant."""
    return boolean(bool(value & 1))
