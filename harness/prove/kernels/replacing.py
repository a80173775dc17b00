"""Terms with some of their parts replaced by other terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kvproof.harness.solve.term import (
    Term,
    add,
    and_,
    apply,
    div,
    eq,
    integer,
    ite,
    le,
    mod,
    mul,
    named,
    not_,
    or_,
    scale,
    walk,
)

_REBUILD: Mapping[str, Callable[..., Term]] = {
    "mul": mul,
    "div": div,
    "mod": mod,
    "and": and_,
    "or": or_,
    "not": not_,
    "ite": ite,
    "name": named,
    "le": lambda difference: le(difference, integer(0)),
}


def replaced(roots: list[Term], parts: Mapping[Term, Term]) -> list[Term]:
    """The terms with each of the parts, wherever it occurs, replaced, and what folds folded."""
    done: dict[Term, Term] = {}
    for term in walk(*roots):
        if term in parts:
            done[term] = parts[term]
            continue
        arguments = [done[a] for a in term.args]
        if all(a is b for a, b in zip(arguments, term.args, strict=True)):
            done[term] = term
        elif term.op == "sum":
            constant, factors = term.payload
            done[term] = add(integer(constant), *(scale(c, a) for c, a in zip(factors, arguments, strict=True)))
        elif term.op == "eq":
            done[term] = eq(arguments[0], arguments[1] if len(arguments) > 1 else integer(0))
        elif term.op == "app":
            done[term] = apply(term.payload, arguments, term.sort)
        else:
            done[term] = _REBUILD[term.op](*arguments)
    return [done[root] for root in roots]
