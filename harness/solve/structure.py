"""The structure of terms: how they are kept, walked, taken apart and shown. ``term`` builds and computes them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

INT = "Int"
BOOL = "Bool"

Value: TypeAlias = int | bool


class Term:
    """One term. Made by the functions of this module only.

    Attributes:
        op: "const", "var", "sum", "mul", "name", "div", "mod", "le", "eq", "and", "or", "not", "ite" or "app".
        args: sub-terms; of a sum its atoms, whose coefficients are in ``payload``.
        payload: a constant's value, a variable's or function's name, or (constant, coefficients) of a sum.
        sort: ``INT`` or ``BOOL``.
        key: text that depends on the term's structure alone; orders commutative arguments.
        range: least and greatest value that the term's shape alone allows; None where it allows any.
        has_product: a product of variables is part of it, or a quotient by one, which is printed as a product.
    """

    __slots__ = ("args", "has_product", "key", "negation", "op", "payload", "range", "sort", "variables")

    op: str
    args: tuple[Term, ...]
    payload: Any
    sort: str
    key: str
    range: tuple[int | None, int | None]
    has_product: bool
    # Filled in when first asked for.
    negation: Term | None
    variables: tuple[Term, ...] | None

    def __repr__(self) -> str:
        return show(self)

    @property
    def is_const(self) -> bool:
        """Whether the term is a literal."""
        return self.op == "const"


# Held for good: the terms of one configuration are some thousands, and path after path makes the same ones.
_interned: dict[tuple[Any, ...], Term] = {}


def make(op: str, args: tuple[Term, ...], payload: Any, sort: str) -> Term:
    """The one term of this structure. For :mod:`term` only, which folds first."""
    table_key = (op, args, payload, sort)
    found = _interned.get(table_key)
    if found is not None:
        return found
    term = Term()
    term.op, term.args, term.payload, term.sort = op, args, payload, sort
    term.negation = term.variables = None
    term.range = _range(term)
    term.has_product = (
        op == "mul" or (op in {"div", "mod"} and not args[1].is_const) or any(arg.has_product for arg in args)
    )
    if op == "var":
        term.key = payload
    else:
        text = f"{op}|{payload}|{'|'.join(a.key for a in args)}"
        term.key = op + hashlib.blake2b(text.encode(), digest_size=9).hexdigest()
    _interned[table_key] = term
    return term


_ANY = (None, None)


def _range(term: Term) -> tuple[int | None, int | None]:
    if term.op == "const":
        return term.payload, term.payload
    if term.op == "sum":
        low, high = term.payload[0], term.payload[0]
        for atom, factor in zip(term.args, term.payload[1], strict=True):
            least, most = atom.range if factor > 0 else atom.range[::-1]
            low = None if low is None or least is None else low + factor * least
            high = None if high is None or most is None else high + factor * most
        return low, high
    if term.op in {"div", "mod"} and term.args[1].is_const and term.args[1].payload > 0:
        divisor = term.args[1].payload
        if term.op == "mod":
            return 0, divisor - 1
        low, high = term.args[0].range
        return (None if low is None else low // divisor), (None if high is None else high // divisor)
    return _ANY


def integer(value: int) -> Term:
    """The literal of an int."""
    return make("const", (), int(value), INT)


def boolean(value: bool) -> Term:
    """The literal of a truth value."""
    return make("const", (), bool(value), BOOL)


TRUE = boolean(True)
FALSE = boolean(False)


def variable(name: str, sort: str = INT) -> Term:
    """A free variable."""
    return make("var", (), name, sort)


def apply(name: str, args: Sequence[Term], sort: str = INT) -> Term:
    """An uninterpreted function at some arguments: a block table, a slot map."""
    return make("app", tuple(args), name, sort)


def linear(term: Term) -> tuple[int, Mapping[Term, int]]:
    """The term as ``constant + sum(coefficient * atom)``."""
    if term.op == "const":
        return term.payload, {}
    if term.op == "sum":
        constant, coefficients = term.payload
        return constant, dict(zip(term.args, coefficients, strict=True))
    return 0, {term: 1}


def combination(constant: int, coefficients: Mapping[Term, int]) -> Term:
    """``constant + sum(coefficient * atom)``, with zero coefficients dropped."""
    items = sorted(((a, c) for a, c in coefficients.items() if c), key=lambda item: item[0].key)
    if not items:
        return integer(constant)
    if constant == 0 and len(items) == 1 and items[0][1] == 1:
        return items[0][0]
    return make("sum", tuple(a for a, _ in items), (constant, tuple(c for _, c in items)), INT)


def conjuncts(term: Term) -> tuple[Term, ...]:
    """The parts of a conjunction, or the term alone."""
    return term.args if term.op == "and" else (term,)


def walk(*roots: Term) -> Iterator[Term]:
    """Every sub-term once, arguments before what uses them, in a deterministic order."""
    seen: set[int] = set()
    for root in roots:
        stack: list[tuple[Term, bool]] = [(root, False)]
        while stack:
            term, expanded = stack.pop()
            if expanded:
                yield term
            elif id(term) not in seen:
                seen.add(id(term))
                if not term.args:
                    yield term
                    continue
                stack.append((term, True))
                stack += [(arg, False) for arg in reversed(term.args) if id(arg) not in seen]


def free_variables(root: Term) -> tuple[Term, ...]:
    """The free variables in order of first appearance."""
    found = root.variables
    if found is None:
        found = root.variables = tuple(t for t in walk(root) if t.op == "var")
    return found


_INFIX = {"div": " // ", "mod": " % ", "mul": "*", "and": " and ", "or": " or "}


def show(term: Term, names: Mapping[Term, str] | None = None) -> str:  # noqa: PLR0911  (one a kind of term)
    """The term as a person writes it; a part that has a name is shown by it."""
    if names and term in names:
        return names[term]
    if term.op == "const":
        return str(term.payload)
    if term.op == "var":
        return term.payload
    if term.op in {"le", "eq"} and len(term.args) == 1:
        return _show_relation(term, names)
    parts = [show(a, names) for a in term.args]
    if term.op == "sum":
        constant, coefficients = term.payload
        shown = [p if c == 1 else f"{c}*{p}" for p, c in zip(parts, coefficients, strict=True)]
        return "(" + " + ".join([*shown, *([str(constant)] if constant else [])]).replace("+ -", "- ") + ")"
    if term.op in _INFIX:
        return "(" + _INFIX[term.op].join(parts) + ")"
    if term.op == "name":
        return parts[0]
    if term.op == "not":
        return f"not {parts[0]}"
    if term.op == "ite":
        return f"({parts[1]} if {parts[0]} else {parts[2]})"
    return f"{term.payload}({', '.join(parts)})" if term.op == "app" else f"({parts[0]} == {parts[1]})"


def _show_relation(term: Term, names: Mapping[Term, str] | None) -> str:
    """``a - b <= 0`` with the negative part moved to the right."""
    constant, atoms = linear(term.args[0])
    left = combination(max(constant, 0), {t: c for t, c in atoms.items() if c > 0})
    right = combination(max(-constant, 0), {t: -c for t, c in atoms.items() if c < 0})
    sides = [show(side, names) for side in (left, right)]
    sides = [
        s[1:-1] if side.op == "sum" and s[0] == "(" else s for s, side in zip(sides, (left, right), strict=True)
    ]
    return f"{sides[0]} {'<=' if term.op == 'le' else '=='} {sides[1]}"
