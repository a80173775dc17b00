"""Terms over mathematical integers and booleans: what a proof is made of before any solver sees it.

Terms are hash-consed: equal terms are one object, so identity compares them and each is printed once. Sums are
kept as linear forms (coefficient times atom, plus a constant), so what cancels is gone before a solver starts.
``div`` and ``mod`` are Python's floor division and remainder; by zero they are some integer, and whoever
builds a quotient has to show that its divisor is not zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kvproof.harness.solve.structure import (
    BOOL,
    FALSE,
    INT,
    TRUE,
    Term,
    Value,
    apply,
    boolean,
    combination,
    conjuncts,
    free_variables,
    integer,
    linear,
    make,
    show,
    variable,
    walk,
)

__all__ = [
    "BOOL",
    "FALSE",
    "INT",
    "TRUE",
    "Term",
    "Value",
    "add",
    "and_",
    "apply",
    "boolean",
    "combination",
    "conjuncts",
    "div",
    "eq",
    "evaluate",
    "free_variables",
    "integer",
    "ite",
    "le",
    "linear",
    "lt",
    "mod",
    "mul",
    "named",
    "neg",
    "not_",
    "or_",
    "scale",
    "show",
    "sub",
    "substitute",
    "variable",
    "walk",
]

# ---- integers -----------------------------------------------------------


def add(*terms: Term) -> Term:
    """The sum of the terms."""
    constant, coefficients = 0, {}
    for term in terms:
        more, atoms = linear(term)
        constant += more
        for atom, factor in atoms.items():
            coefficients[atom] = coefficients.get(atom, 0) + factor
    return combination(constant, coefficients)


def scale(factor: int, term: Term) -> Term:
    """A constant times a term."""
    constant, atoms = linear(term)
    return combination(factor * constant, {a: factor * c for a, c in atoms.items()})


def neg(term: Term) -> Term:
    """The negative of a term."""
    return scale(-1, term)


def sub(a: Term, b: Term) -> Term:
    """``a - b``."""
    return add(a, neg(b))


def named(term: Term) -> Term:
    """The same value as an atom: what contains products is a factor as a whole, never multiplied out."""
    _, atoms = linear(term)
    if any(atom.op == "mul" for atom in atoms):
        return make("name", (term,), None, INT)
    return term


def mul(a: Term, b: Term) -> Term:
    """The product, expanded over sums: products of two atoms are atoms, whichever way they were written."""
    if not linear(a)[1]:
        return scale(a.payload, b)
    if not linear(b)[1]:
        return scale(b.payload, a)
    (ca, atoms_a), (cb, atoms_b) = linear(named(a)), linear(named(b))
    total: dict[Term, int] = {}

    def put(atom: Term, factor: int) -> None:
        total[atom] = total.get(atom, 0) + factor

    for atom, factor in atoms_a.items():
        put(atom, factor * cb)
    for atom, factor in atoms_b.items():
        put(atom, factor * ca)
    for x, cx in atoms_a.items():
        for y, cy in atoms_b.items():
            put(make("mul", tuple(sorted((x, y), key=lambda t: t.key)), None, INT), cx * cy)
    return combination(ca * cb, total)


def div(a: Term, b: Term) -> Term:
    """Floor division."""
    if b.is_const and b.payload:
        if b.payload == 1:
            return a
        constant, atoms = linear(a)
        if not atoms:
            return integer(constant // b.payload)
        if all(c % b.payload == 0 for c in atoms.values()):
            return combination(constant // b.payload, {t: c // b.payload for t, c in atoms.items()})
        known = _quotient_of_range(a, b.payload)
        if known is not None:
            return integer(known)
    return make("div", (a, b), None, INT)


def _quotient_of_range(a: Term, divisor: int) -> int | None:
    """The quotient, if it is the same for every value that the dividend can have."""
    low, high = a.range
    if divisor < 0 or low is None or high is None or low // divisor != high // divisor:
        return None
    return low // divisor


def mod(a: Term, b: Term) -> Term:
    """Remainder of floor division."""
    if b.is_const and b.payload:
        constant, atoms = linear(a)
        if all(c % b.payload == 0 for c in atoms.values()):
            return integer(constant % b.payload)
        known = _quotient_of_range(a, b.payload)
        if known is not None:
            return sub(a, integer(known * b.payload))
    return make("mod", (a, b), None, INT)


# ---- conditions ---------------------------------------------------------


def le(a: Term, b: Term) -> Term:
    """``a <= b``, kept as ``a - b <= 0``."""
    difference = sub(a, b)
    low, high = difference.range
    if high is not None and high <= 0:
        return TRUE
    if low is not None and low > 0:
        return FALSE
    return make("le", (difference,), None, BOOL)


def lt(a: Term, b: Term) -> Term:
    """``a < b``, which on integers is ``a + 1 <= b``."""
    return le(add(a, integer(1)), b)


def eq(a: Term, b: Term) -> Term:
    """Equality of integers, kept as ``a - b = 0``, or of conditions."""
    if a.sort == BOOL:
        if a.is_const or b.is_const:
            known, other = (a, b) if a.is_const else (b, a)
            return other if known.payload else not_(other)
        return TRUE if a is b else make("eq", tuple(sorted((a, b), key=lambda t: t.key)), None, BOOL)
    difference = sub(a, b)
    low, high = difference.range
    if low is not None and high is not None and low == high == 0:
        return TRUE
    if (low is not None and low > 0) or (high is not None and high < 0):
        return FALSE
    constant, atoms = linear(difference)
    if next(iter(atoms.values())) < 0:  # one sign, so that a = b and b = a are one term
        difference = combination(-constant, {t: -c for t, c in atoms.items()})
    return make("eq", (difference,), None, BOOL)


def not_(a: Term) -> Term:
    """Negation; of an inequality it is an inequality again."""
    if a.negation is None:
        if a.is_const:
            a.negation = boolean(not a.payload)
        elif a.op == "le":
            a.negation = le(integer(1), a.args[0])
        else:
            a.negation = make("not", (a,), None, BOOL)
        a.negation.negation = a
    return a.negation


def _junction(op: str, neutral: Term, terms: Iterable[Term]) -> Term:
    absorbing = not_(neutral)
    parts: dict[Term, None] = {}
    for term in terms:
        for part in term.args if term.op == op else (term,):
            if part is absorbing or not_(part) in parts:
                return absorbing
            if part is not neutral:
                parts[part] = None
    if len(parts) < 2:
        return next(iter(parts), neutral)
    return make(op, tuple(parts), None, BOOL)


def and_(*terms: Term) -> Term:
    """Conjunction, in the order given."""
    return _junction("and", TRUE, terms)


def or_(*terms: Term) -> Term:
    """Disjunction, in the order given."""
    return _junction("or", FALSE, terms)


def ite(condition: Term, then: Term, otherwise: Term) -> Term:
    """``then`` if the condition holds, else ``otherwise``."""
    if condition.is_const:
        return then if condition.payload else otherwise
    if then is otherwise:
        return then
    if then.sort == BOOL:
        return and_(or_(not_(condition), then), or_(condition, otherwise))
    return make("ite", (condition, then, otherwise), None, INT)


# ---- computing ----------------------------------------------------------


def substitute(roots: Sequence[Term], values: Mapping[str, int]) -> list[Term]:
    """The terms with some integer variables replaced by numbers, and folded."""
    done: dict[Term, Term] = {}
    for term in walk(*roots):
        args = [done[a] for a in term.args]
        if term.op == "var" and term.payload in values:
            done[term] = integer(values[term.payload])
        elif term.op == "sum":
            constant, coefficients = term.payload
            parts = [scale(c, arg) for c, arg in zip(coefficients, args, strict=True)]
            done[term] = add(integer(constant), *parts)
        elif term.op in _REBUILD:
            done[term] = _REBUILD[term.op](*args)
        elif term.op == "app":
            done[term] = apply(term.payload, args, term.sort)
        else:
            done[term] = term
    return [done[root] for root in roots]


_REBUILD: Mapping[str, Callable[..., Term]] = {
    "mul": mul,
    "name": named,
    "div": div,
    "mod": mod,
    "le": lambda difference: le(difference, integer(0)),
    "eq": lambda *sides: eq(sides[0], sides[1] if len(sides) > 1 else integer(0)),
    "and": and_,
    "or": or_,
    "not": not_,
    "ite": ite,
}


def _evaluate_sum(term: Term, values: Sequence[Value]) -> int:
    constant, coefficients = term.payload
    return constant + sum(c * v for c, v in zip(coefficients, values, strict=True))


_EVALUATE: Mapping[str, Callable[[Sequence[Any]], Value]] = {
    "mul": lambda v: v[0] * v[1],
    "name": lambda v: v[0],
    "div": lambda v: v[0] // v[1],
    "mod": lambda v: v[0] % v[1],
    "le": lambda v: v[0] <= 0,
    "eq": lambda v: v[0] == 0 if len(v) == 1 else v[0] == v[1],
    "and": all,
    "or": any,
    "not": lambda v: not v[0],
    "ite": lambda v: v[1] if v[0] else v[2],
}


def evaluate(
    root: Term, values: Mapping[str, Value], functions: Mapping[str, Callable[..., Value]] | None = None
) -> Value:
    """The term's value, computed by Python.

    Args:
        root: the term.
        values: value of each free variable by name.
        functions: Python function of each uninterpreted function by name.

    Raises:
        KeyError: a variable or function without a value.
        ZeroDivisionError: a quotient by zero anywhere in the term.
    """
    results: dict[Term, Value] = {}
    for term in walk(root):
        inputs = [results[a] for a in term.args]
        if term.op == "const":
            results[term] = term.payload
        elif term.op == "var":
            results[term] = values[term.payload]
        elif term.op == "app":
            results[term] = (functions or {})[term.payload](*inputs)
        elif term.op == "sum":
            results[term] = _evaluate_sum(term, inputs)
        else:
            results[term] = _EVALUATE[term.op](inputs)
    return results[root]
