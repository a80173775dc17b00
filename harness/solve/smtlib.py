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

import random
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from kvproof.harness.solve.printer import Printer
from kvproof.harness.solve.query import Query
from kvproof.harness.solve.term import not_

_SYMBOL = re.compile(r"\b[xtnpqr]![0-9]+\b|\|[^|]*\|")


@dataclass(frozen=True)
class Script:
    """A query's text, in parts.

    Attributes:
        logic: SMT-LIB logic.
        declared: (symbol, declaration or definition), each using earlier ones only.
        assertions: conditions that are to hold together.
        symbols: the query's own variables as (symbol, name, sort); their values are a counterexample.
        opaque: some product was printed as a fresh integer.
    """

    logic: str
    declared: tuple[tuple[str, str], ...]
    assertions: tuple[str, ...]
    symbols: tuple[tuple[str, str, str], ...]
    opaque: bool

    @cached_property
    def text(self) -> str:
        """SMT-LIB without the final commands."""
        return self._joined(f"(assert {condition})" for condition in self.assertions)

    def labelled(self) -> str:
        """The text with each assertion named ``a!`` and its place, for a solver that gives unsatisfiable cores."""
        named = (f"(assert (! {condition} :named a!{place}))" for place, condition in enumerate(self.assertions))
        return "(set-option :produce-unsat-cores true)\n" + self._joined(named)

    def _joined(self, asserted: Iterable[str]) -> str:
        declared = [line for _, line in self.declared]
        return "\n".join([f"(set-logic {self.logic})", *declared, *asserted, ""])

    def complete(self) -> str:
        """The text with a legend, and with the commands that ask for an answer and a counterexample."""
        legend = "".join(f"; {symbol} is {name}\n" for symbol, name, _ in self.symbols)
        shown = " ".join(symbol for symbol, _, _ in self.symbols)
        tail = f"(get-value ({shown}))\n" if shown else ""
        return f"{legend}{self.text}(check-sat)\n{tail}"

    def subset(self, kept: Iterable[int]) -> Script:
        """The text with some assertions only, renumbered. If these cannot hold together, neither can all."""
        assertions = [self.assertions[place] for place in sorted(kept)]
        lines = dict(self.declared)
        needed: set[str] = set()
        waiting = [symbol for condition in assertions for symbol in _SYMBOL.findall(condition)]
        while waiting:
            symbol = waiting.pop()
            if symbol not in needed:
                needed.add(symbol)
                waiting += [s for s in _SYMBOL.findall(lines[symbol]) if s != symbol]
        declared = [(symbol, line) for symbol, line in self.declared if symbol in needed]
        names = {s: s if s[0] == "|" else f"{s[0]}!{place}" for place, (s, _) in enumerate(declared)}

        def renamed(text: str) -> str:
            return _SYMBOL.sub(lambda found: names[found[0]], text)

        return Script(
            self.logic,
            tuple((names[symbol], renamed(line)) for symbol, line in declared),
            tuple(renamed(condition) for condition in assertions),
            tuple((names[symbol], name, sort) for symbol, name, sort in self.symbols if symbol in needed),
            self.opaque,
        )


def script(
    query: Query, *, opaque: bool = False, sums: bool = False, ones: bool = True, shuffle: int | None = None
) -> Script:
    """The query as text.

    Args:
        query: the question.
        opaque: print products of variables as fresh integers.
        sums: say more of them: what follows from the order of sums of two factors.
        ones: say of them what follows from comparing a factor with 1. Seldom needed, and a third of the text.
        shuffle: assert in an order drawn from this seed instead of the query's own, to test stability.
    """
    roots = [*query.premises, not_(query.goal)]
    if shuffle is not None:
        random.Random(shuffle).shuffle(roots)  # noqa: S311  (an order, not a secret)
    printer = Printer(opaque)
    printer.print_all(roots)
    order = [*printer.order_of_products(sums, ones), *printer.equal_products()]
    return Script(
        printer.logic,
        tuple(printer.declared),
        (*printer.facts, *order, *(printer.text[root] for root in roots)),
        tuple(printer.symbols),
        bool(printer.products),
    )
