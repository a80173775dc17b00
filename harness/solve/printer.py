"""Prints terms as SMT-LIB: declarations, what defines quotients and products, and the conditions themselves."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from kvproof.harness.solve.term import Term, Value, div, linear, mul, walk


def quote(name: str) -> str:
    """A function's name as an SMT-LIB symbol; the prefix keeps it apart from the printer's own."""
    if "|" in name or "\\" in name:
        raise ValueError(f"name {name!r} cannot be an SMT-LIB symbol")
    return f"|f {name}|"


def literal(value: Value) -> str:
    """A value in SMT-LIB's notation."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if value >= 0 else f"(- {-value})"


def monomial(term: Term) -> tuple[int, tuple[Term, ...]]:
    """A term as a number times atoms none of which is a product; a sum is one atom."""
    if term.op == "name":
        constant, atoms = linear(term.args[0])
        if constant == 0 and len(atoms) == 1:
            ((atom, coefficient),) = atoms.items()
            factor, factors = monomial(atom)
            return coefficient * factor, factors
    if term.op == "mul":
        (cx, factors), (cy, more) = monomial(term.args[0]), monomial(term.args[1])
        return cx * cy, (*factors, *more)
    return 1, (term,)


@dataclass
class Printer:
    """Prints terms once each; what is used twice gets a name of its own.

    Attributes:
        opaque: products of variables become fresh integers.
        declared: (symbol, its declaration or definition), in an order in which each uses earlier ones only.
        facts: what holds of the fresh integers.
        text: each printed term's text.
        symbols: the query's own variables as (symbol, name, sort).
    """

    opaque: bool
    declared: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    facts: list[str] = field(default_factory=list[str])
    text: dict[Term, str] = field(default_factory=dict[Term, str])
    symbols: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    products: dict[tuple[Term, Term], str] = field(default_factory=dict[tuple[Term, Term], str])
    _functions: set[str] = field(default_factory=set[str])
    _quotients: dict[tuple[Term, Term], tuple[str, str]] = field(
        default_factory=dict[tuple[Term, Term], tuple[str, str]]
    )
    _nonlinear: bool = False

    def print_all(self, roots: Sequence[Term]) -> None:
        """Print the terms and all their parts."""
        terms = list(walk(*roots))
        uses = Counter(arg for term in terms for arg in term.args)
        for term in terms:
            if term in self.text:
                continue
            text = self._one(term)
            compound = text.startswith("(") and term.op not in {"const", "div", "mod"}
            if compound and uses[term] > 1 and len(text) > 24:
                text = self._define("t", term.sort, text)
            self.text[term] = text

    @property
    def logic(self) -> str:
        """The least logic that the text is in."""
        return f"QF_{'UF' if self._functions else ''}{'N' if self._nonlinear else 'L'}IA"

    def _declare(self, kind: str, sort: str = "Int") -> str:
        symbol = f"{kind}!{len(self.declared)}"
        self.declared.append((symbol, f"(declare-const {symbol} {sort})"))
        return symbol

    def _define(self, kind: str, sort: str, text: str) -> str:
        symbol = f"{kind}!{len(self.declared)}"
        self.declared.append((symbol, f"(define-fun {symbol} () {sort} {text})"))
        return symbol

    def _one(self, term: Term) -> str:  # noqa: PLR0911  (one a kind of term)
        args = [self.text[a] for a in term.args]
        match term.op:
            case "const":
                return literal(term.payload)
            case "var":
                symbol = self._declare("x", term.sort)
                self.symbols.append((symbol, term.payload, term.sort))
                return symbol
            case "sum":
                constant, coefficients = term.payload
                return self._sum(constant, zip(term.args, coefficients, strict=True))
            case "mul":
                return self._product(term.args[0], term.args[1])
            case "name":
                return self._name(args[0])
            case "div" | "mod":
                return self._quotient(term.args[0], term.args[1])[term.op == "mod"]
            case "le":
                return self._relation("<=", term.args[0])
            case "eq" if len(term.args) == 1:
                return self._relation("=", term.args[0])
            case "app":
                return self._application(term, args)
            case _:
                return f"({ {'eq': '='}.get(term.op, term.op) } {' '.join(args)})"

    def _sum(self, constant: int, items: Iterable[tuple[Term, int]]) -> str:
        parts = [self.text[a] if c == 1 else f"(* {literal(c)} {self.text[a]})" for a, c in items]
        if constant or not parts:
            parts.append(literal(constant))
        return parts[0] if len(parts) == 1 else f"(+ {' '.join(parts)})"

    def _relation(self, sign: str, difference: Term) -> str:
        """``a - b <= 0`` as ``a <= b``."""
        constant, atoms = linear(difference)
        left = self._sum(max(constant, 0), [(a, c) for a, c in atoms.items() if c > 0])
        right = self._sum(max(-constant, 0), [(a, -c) for a, c in atoms.items() if c < 0])
        return f"({sign} {left} {right})"

    def _product(self, x: Term, y: Term) -> str:
        if not self.opaque:
            self._nonlinear = True
            return f"(* {self.text[x]} {self.text[y]})"
        symbol = self._declare("p")
        self.products[x, y] = symbol
        return symbol

    def _name(self, text: str) -> str:
        symbol = self._declare("n")
        self.facts.append(f"(= {symbol} {text})")
        return symbol

    def _quotient(self, x: Term, d: Term) -> tuple[str, str]:
        known = self._quotients.get((x, d))
        if known is not None:
            return known
        q, r = self._declare("q"), self._declare("r")
        self._quotients[x, d] = q, r
        if d.is_const:
            product = f"(* {literal(d.payload)} {q})"
        else:
            # The same product may occur in the query: it must print alike, opaque or not.
            term = mul(div(x, d), d)
            self.text[div(x, d)] = q
            product = self.text.get(term) or self._product_of_quotient(term)
        x_text, d_text = self.text[x], self.text[d]
        self.facts.append(f"(= {x_text} (+ {product} {r}))")
        up, down = f"(and (<= 0 {r}) (< {r} {d_text}))", f"(and (<= {r} 0) (< {d_text} {r}))"
        if d.is_const and d.payload:
            self.facts.append(up if d.payload > 0 else down)
        else:
            self.facts += [f"(=> (< 0 {d_text}) {up})", f"(=> (< {d_text} 0) {down})"]
        return q, r

    def _product_of_quotient(self, term: Term) -> str:
        """Print a product that a quotient brings in, before the query's own walk meets it (if it does)."""
        for part in walk(term):
            if part not in self.text:
                self.text[part] = self._one(part)
        return self.text[term]

    def _application(self, term: Term, args: list[str]) -> str:
        name = quote(term.payload)
        if term.payload not in self._functions:
            self._functions.add(term.payload)
            sorts = " ".join(a.sort for a in term.args)
            self.declared.append((name, f"(declare-fun {name} ({sorts}) {term.sort})"))
        return f"({name} {' '.join(args)})" if args else name

    # ---- what opaque products keep of multiplication ----

    def equal_products(self) -> Iterator[str]:
        """Products of the same factors, bracketed otherwise, are equal."""
        first: dict[tuple[Term, ...], tuple[int, str]] = {}
        for (x, y), product in self.products.items():
            (cx, factors), (cy, more) = monomial(x), monomial(y)
            factor, key = cx * cy, tuple(sorted((*factors, *more), key=lambda t: t.key))
            known = first.setdefault(key, (factor, product))
            if known[1] != product:
                yield f"(= (* {literal(factor)} {known[1]}) (* {literal(known[0])} {product}))"

    def order_of_products(self, sums: bool, ones: bool) -> Iterator[str]:
        """What follows from the order of factors; with ``ones`` of one and 1, with ``sums`` of two."""
        cofactors: dict[Term, dict[str, str]] = {}
        for (x, y), product in self.products.items():
            for factor, other in ((x, y), (y, x)):
                known = cofactors.setdefault(factor, {"0": "0"} | ({"1": self.text[factor]} if ones else {}))
                known[self.text[other]] = product
        for factor, known in cofactors.items():
            z, items = self.text[factor], list(known.items())
            products = items[1 + ones :]
            for (x, xz), (y, yz) in itertools.combinations(items, 2):
                if (x, y) != ("0", "1"):
                    above = f"(ite (< {x} {y}) (<= (+ {xz} {z}) {yz}) (<= (+ {yz} {z}) {xz}))"
                    yield f"(=> (<= 0 {z}) (ite (= {x} {y}) (= {xz} {yz}) {above}))"
            if sums:
                for (x, xz), (u, uz) in itertools.combinations(products, 2):
                    for y, yz in products:
                        if y not in {x, u}:
                            smaller = f"(<= (+ {x} {u}) {y})"
                            yield f"(=> (and (<= 0 {z}) {smaller}) (<= (+ {xz} {uz}) {yz}))"
