"""Solving for the program, lane and iteration that reach an element: the inverse of an address map.

Each equation says what an index of the contract is in terms of the kernel's unknowns: ``t = pid*4 + lane``. Where
an unknown stands alone it is the rest; where several stand together they are the digits of a mixed radix. What
is found is only a proposal: that it reaches the element is shown afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kvproof.harness.prove.kernels.replacing import replaced
from kvproof.harness.solve.term import (
    Term,
    add,
    combination,
    div,
    integer,
    linear,
    mod,
    mul,
    scale,
    sub,
    variable,
    walk,
)

Extent = Callable[[Term], "Term | None"]
"""How many values an unknown has, if that is known."""


def solve(equations: list[tuple[Term, Term]], unknowns: list[Term], extent: Extent) -> dict[Term, Term] | None:
    """Values of the unknowns for which each left side equals its right side; None if no way is seen.

    Args:
        equations: (side with unknowns, known side).
        unknowns: what to solve for; one that no equation needs is left at 0.
        extent: number of values of an unknown.
    """
    pairs = _quotient_pairs([left for left, _ in equations], unknowns, extent)
    split = {unknown: add(mul(q, divisor), r) for unknown, (q, r, divisor) in pairs.items()}
    equations = [(_divided(left, pairs), right) for left, right in equations]
    parts = [part for q, r, _ in pairs.values() for part in (q, r)]
    sizes = {r: divisor for _, r, divisor in pairs.values()}
    rest = [u for u in unknowns if u not in pairs]
    found = _solve(equations, [*rest, *parts], lambda u: sizes.get(u) or extent(u))
    if found is None:
        return None
    return {u: replaced([split[u]], found)[0] if u in split else found[u] for u in unknowns}


def _quotient_pairs(
    lefts: list[Term], unknowns: list[Term], _extent: Extent
) -> dict[Term, tuple[Term, Term, Term]]:
    """Unknowns of which only the quotient and remainder by one divisor matter, with variables for these two."""
    found: dict[Term, tuple[Term, Term, Term]] = {}
    terms = list(walk(*lefts))
    for number, unknown in enumerate(unknowns):
        users = [t for t in terms if unknown in t.args]
        divisors = {t.args[1] for t in users if t.op in {"div", "mod"} and t.args[0] is unknown}
        alone = all(t.op in {"div", "mod"} and t.args[0] is unknown for t in users)
        if users and alone and len(divisors) == 1 and unknown not in lefts:
            found[unknown] = (variable(f"quotient {number}"), variable(f"remainder {number}"), divisors.pop())
    return found


def _divided(left: Term, pairs: Mapping[Term, tuple[Term, Term, Term]]) -> Term:
    parts: dict[Term, Term] = {}
    for unknown, (q, r, divisor) in pairs.items():
        parts[div(unknown, divisor)], parts[mod(unknown, divisor)] = q, r
    return replaced([left], parts)[0]


def _solve(equations: list[tuple[Term, Term]], unknowns: list[Term], extent: Extent) -> dict[Term, Term] | None:
    found: dict[Term, Term] = {}
    waiting = list(equations)
    while waiting:
        progress = False
        for equation in list(waiting):
            left, right = replaced([equation[0]], found)[0], equation[1]
            open_ones = [u for u in unknowns if u not in found and u in set(walk(left))]
            if not open_ones:
                waiting.remove(equation)
                progress = True
                continue
            digits = _digits(left, right, open_ones, extent)
            if digits is not None:
                found.update(digits)
                waiting.remove(equation)
                progress = True
        if not progress:
            return None
    return {u: found.get(u, integer(0)) for u in unknowns}


def _digits(left: Term, right: Term, unknowns: list[Term], extent: Extent) -> dict[Term, Term] | None:
    """The unknowns of one equation that is linear in them."""
    constant, atoms = linear(left)
    places: list[tuple[Term, Term]] = []  # (unknown, weight)
    rest: dict[Term, int] = {}
    for atom, factor in atoms.items():
        weight = _weight(atom, factor, unknowns)
        if weight is not None:
            places.append(weight)
        elif set(unknowns) & set(walk(atom)):
            return None
        else:
            rest[atom] = factor
    value = sub(right, combination(constant, rest))
    places = _joined(places)
    ordered = _by_weight(places, extent)
    if ordered is None:
        return None
    found: dict[Term, Term] = {}
    for unknown, weight in ordered:
        if weight == integer(1):
            found[unknown] = value
            value = integer(0)
        elif weight == integer(-1):
            found[unknown] = scale(-1, value)
            value = integer(0)
        else:
            found[unknown] = div(value, weight)
            value = mod(value, weight)
    return found


def _weight(atom: Term, factor: int, unknowns: list[Term]) -> tuple[Term, Term] | None:
    """(unknown, weight) of a summand that is an unknown times something known."""
    if atom in unknowns:
        return atom, integer(factor)
    if atom.op == "mul":
        inside = [f for f in atom.args if f in unknowns]
        others = [f for f in atom.args if f not in unknowns]
        if len(inside) == 1 and not any(set(unknowns) & set(walk(o)) for o in others):
            weight = integer(factor)
            for other in others:
                weight = mul(weight, other)
            return inside[0], weight
    return None


def _joined(places: list[tuple[Term, Term]]) -> list[tuple[Term, Term]]:
    total: dict[Term, Term] = {}
    for unknown, weight in places:
        total[unknown] = add(total[unknown], weight) if unknown in total else weight
    return list(total.items())


def _by_weight(places: list[tuple[Term, Term]], extent: Extent) -> list[tuple[Term, Term]] | None:
    """Heaviest digit first: each digit's weight is the next lighter one's weight times its extent."""
    if len(places) == 1:
        return places
    remaining = dict(places)
    ordered: list[tuple[Term, Term]] = []
    want: Term | None = integer(1)
    while remaining and want is not None:
        lightest = next((u for u, w in remaining.items() if w is want), None)
        if lightest is None:
            break
        ordered.insert(0, (lightest, remaining.pop(lightest)))
        size = extent(lightest)
        want = None if size is None else mul(want, size)
    if not remaining:
        return ordered
    # Not a full mixed radix: constants in order of size, if they all are.
    if all(w.is_const and w.payload > 0 for _, w in places):
        return sorted(places, key=lambda p: -p[1].payload)
    return None


Solution = Mapping[Term, Term]
