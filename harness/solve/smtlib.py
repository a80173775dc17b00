"""Queries as normalised SMT-LIB text: what solvers read, certificates hash and a person can feed to any solver.

The text depends on the query's structure alone: variables are numbered in order of appearance, so that the same
question about other addresses has the same text. Quotients are lowered to shared fresh integers,
``x = q*d + r`` with ``0 <= r < d``: SMT-LIB's own ``div`` rounds otherwise for negative divisors, and solvers
do far better on the shared form. Products of variables are printed as they are, or as *opaque* fresh integers.
Of opaque products the text says that those of the same factors are equal, and what follows from the order of their
factors: for ``z >= 0`` and any two ``x*z``, ``y*z`` of the query, ``x < y`` implies ``x*z + z <= y*z`` (and, one
step further, ``x + u <= y`` implies ``x*z + u*z <= y*z``). That is weaker than multiplication, so ``unsat``
still proves, and ``sat`` says nothing.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from kvproof.harness.solve.query import Query
from kvproof.harness.solve.term import Term, div, linear, mul, not_, walk


@dataclass(frozen=True)
class Script:
    """A query's text.

    Attributes:
        text: SMT-LIB without the final commands.
        symbols: the query's own variables as (symbol in the text, name, sort); their values are a counterexample.
        opaque: some product was printed as a fresh integer.
    """

    text: str
    symbols: tuple[tuple[str, str, str], ...]
    opaque: bool

    def complete(self) -> str:
        """The text with a legend, and with the commands that ask for an answer and a counterexample."""
        legend = "".join(f"; {symbol} is {name}\n" for symbol, name, _ in self.symbols)
        shown = " ".join(symbol for symbol, _, _ in self.symbols)
        tail = f"(get-value ({shown}))\n" if shown else ""
        return f"{legend}{self.text}(check-sat)\n{tail}"


def quote(name: str) -> str:
    """A function's name as an SMT-LIB symbol."""
    if "|" in name or "\\" in name:
        raise ValueError(f"name {name!r} cannot be an SMT-LIB symbol")
    return name if name.replace("_", "a").isalnum() and name.isascii() and not name[0].isdigit() else f"|{name}|"


def literal(value: int | bool) -> str:
    """A value in SMT-LIB's notation."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if value >= 0 else f"(- {-value})"


@dataclass
class _Printer:
    """Prints terms once each; what is used twice gets a name of its own."""

    opaque: bool
    products: dict[tuple[Term, Term], str] = field(default_factory=dict[tuple[Term, Term], str])
    lines: list[str] = field(default_factory=list[str])
    text: dict[Term, str] = field(default_factory=dict[Term, str])
    symbols: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    functions: set[str] = field(default_factory=set[str])
    quotients: dict[tuple[Term, Term], tuple[str, str]] = field(
        default_factory=dict[tuple[Term, Term], tuple[str, str]]
    )
    nonlinear: bool = False

    def print_all(self, roots: list[Term]) -> None:
        uses = Counter(arg for term in walk(*roots) for arg in term.args)
        for term in walk(*roots):
            if term in self.text:
                continue
            text = self._one(term)
            compound = text.startswith("(") and term.op not in {"const", "div", "mod"}
            if compound and uses[term] > 1 and len(text) > 24:
                name = f"t!{len(self.lines)}"
                self.lines.append(f"(define-fun {name} () {term.sort} {text})")
                text = name
            self.text[term] = text

    def _one(self, term: Term) -> str:  # noqa: PLR0911  (one a kind of term)
        args = [self.text[a] for a in term.args]
        match term.op:
            case "const":
                return literal(term.payload)
            case "var":
                symbol = f"x{len(self.symbols)}"
                self.lines.append(f"(declare-const {symbol} {term.sort})")
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
            self.nonlinear = True
            return f"(* {self.text[x]} {self.text[y]})"
        name = f"p!{len(self.lines)}"
        self.lines.append(f"(declare-const {name} Int)")
        self.products[x, y] = name
        return name

    def _name(self, text: str) -> str:
        name = f"n!{len(self.lines)}"
        self.lines += [f"(declare-const {name} Int)", f"(assert (= {name} {text}))"]
        return name

    def order_of_products(self, sums: bool) -> list[str]:
        """What follows for opaque products from the order of their factors, and with ``sums`` of sums of two."""
        cofactors: dict[Term, dict[str, str]] = {}
        for (x, y), product in self.products.items():
            for factor, other in ((x, y), (y, x)):
                known = cofactors.setdefault(factor, {"0": "0", "1": self.text[factor]})
                known[self.text[other]] = product
        lines: list[str] = []
        for factor, known in cofactors.items():
            z = self.text[factor]
            for (x, xz), (y, yz) in itertools.combinations(known.items(), 2):
                above = f"(ite (< {x} {y}) (<= (+ {xz} {z}) {yz}) (<= (+ {yz} {z}) {xz}))"
                lines.append(f"(assert (=> (<= 0 {z}) (ite (= {x} {y}) (= {xz} {yz}) {above})))")
            triples = itertools.permutations(list(known.items())[2:], 3) if sums else ()
            lines += [
                f"(assert (=> (and (<= 0 {z}) (<= (+ {x} {u}) {y})) (<= (+ {xz} {uz}) {yz})))"
                for (x, xz), (u, uz), (y, yz) in triples
                if x < u
            ]
        return lines

    def equal_products(self) -> list[str]:
        """Opaque products of the same factors, bracketed otherwise, are equal."""
        first: dict[tuple[Term, ...], tuple[int, str]] = {}
        lines: list[str] = []
        for (x, y), product in self.products.items():
            (cx, factors), (cy, more) = monomial(x), monomial(y)
            factor, key = cx * cy, tuple(sorted((*factors, *more), key=lambda t: t.key))
            if key in first:
                known_factor, known = first[key]
                lines.append(f"(assert (= (* {literal(factor)} {known}) (* {literal(known_factor)} {product})))")
            else:
                first[key] = factor, product
        return lines

    def _quotient(self, x: Term, d: Term) -> tuple[str, str]:
        known = self.quotients.get((x, d))
        if known is not None:
            return known
        number = len(self.quotients)
        q, r = f"q!{number}", f"r!{number}"
        self.quotients[x, d] = q, r
        self.lines += [f"(declare-const {q} Int)", f"(declare-const {r} Int)"]
        if d.is_const:
            product = f"(* {literal(d.payload)} {q})"
        else:
            # The same product may occur in the query: it must print alike, opaque or not.
            term = mul(div(x, d), d)
            self.text[div(x, d)] = q
            product = self.text.get(term) or self._named_product(term)
        x_text, d_text = self.text[x], self.text[d]
        self.lines.append(f"(assert (= {x_text} (+ {product} {r})))")
        up, down = f"(and (<= 0 {r}) (< {r} {d_text}))", f"(and (<= {r} 0) (< {d_text} {r}))"
        if d.is_const and d.payload:
            self.lines.append(f"(assert {up if d.payload > 0 else down})")
        else:
            self.lines.append(f"(assert (and (=> (< 0 {d_text}) {up}) (=> (< {d_text} 0) {down})))")
        return q, r

    def _named_product(self, term: Term) -> str:
        """Print a product that a quotient brings in, before the query's own walk meets it (if it does)."""
        for part in walk(term):
            if part not in self.text:
                self.text[part] = self._one(part)
        return self.text[term]

    def _application(self, term: Term, args: list[str]) -> str:
        name = quote(term.payload)
        if term.payload not in self.functions:
            self.functions.add(term.payload)
            sorts = " ".join(a.sort for a in term.args)
            self.lines.append(f"(declare-fun {name} ({sorts}) {term.sort})")
        return f"({name} {' '.join(args)})" if args else name

    @property
    def logic(self) -> str:
        return f"QF_{'UF' if self.functions else ''}{'N' if self.nonlinear else 'L'}IA"


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


def script(query: Query, *, opaque: bool = False, sums: bool = False, shuffle: int | None = None) -> Script:
    """The query as text.

    Args:
        query: the question.
        opaque: print products of variables as fresh integers.
        sums: say more of them: what follows from the order of sums of two factors.
        shuffle: assert in an order drawn from this seed instead of the query's own, to test stability.
    """
    roots = [*query.premises, not_(query.goal)]
    if shuffle is not None:
        random.Random(shuffle).shuffle(roots)  # noqa: S311  (an order, not a secret)
    printer = _Printer(opaque)
    printer.print_all(roots)
    asserts = [f"(assert {printer.text[root]})" for root in roots]
    lines = [
        f"(set-logic {printer.logic})",
        *printer.lines,
        *printer.order_of_products(sums),
        *printer.equal_products(),
        *asserts,
        "",
    ]
    return Script("\n".join(lines), tuple(printer.symbols), bool(printer.products))
