"""Ranges of terms from ranges of their atoms: settles most width obligations without a solver."""

from __future__ import annotations

from collections.abc import Callable

from kvproof.harness.solve.term import Term, linear

Interval = tuple[int | None, int | None]
ANY: Interval = (None, None)

_Scale = Callable[[int | None], int | None]


def _times(bound: int | None, factor: int) -> int | None:
    return None if bound is None else bound * factor


def _plus(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


class Intervals:
    """Ranges of terms.

    Args:
        atom: range of a variable or function application.
    """

    def __init__(self, atom: Callable[[Term], Interval]) -> None:
        self._atom = atom
        self._known: dict[Term, Interval] = {}

    def of(self, term: Term) -> Interval:
        """Least and greatest value that the term can have; None where nothing is known."""
        found = self._known.get(term)
        if found is None:
            found = self._known[term] = self._compute(term)
        return found

    def within(self, term: Term, low: int, high: int) -> bool:
        """Whether the term certainly lies in ``low..high``."""
        least, most = self.of(term)
        return least is not None and most is not None and low <= least and most <= high

    def _compute(self, term: Term) -> Interval:  # noqa: PLR0911  (one a kind of term)
        if term.op == "const":
            return term.payload, term.payload
        if term.op == "sum":
            return self._sum(term)
        if term.op == "ite":
            (a, b), (c, d) = self.of(term.args[1]), self.of(term.args[2])
            return (None if a is None or c is None else min(a, c)), (None if b is None or d is None else max(b, d))
        if term.op == "mul":
            result: Interval = (1, 1)
            for factor in term.args:
                result = _product(result, self.of(factor))
            return result
        if term.op in {"div", "mod"}:
            return self._quotient(term)
        if term.op == "name":
            return self.of(term.args[0])
        return self._atom(term)

    def _sum(self, term: Term) -> Interval:
        constant, atoms = linear(term)
        low: int | None = constant
        high: int | None = constant
        for atom, factor in atoms.items():
            least, most = self.of(atom)
            if factor < 0:
                least, most = most, least
            low, high = _plus(low, _times(least, factor)), _plus(high, _times(most, factor))
        return low, high

    def _quotient(self, term: Term) -> Interval:
        (low, high), (least, most) = self.of(term.args[0]), self.of(term.args[1])
        if least is None or least < 1:
            return ANY
        if term.op == "mod":
            top = None if most is None else most - 1
            if low is not None and low >= 0 and high is not None:
                top = high if top is None else min(top, high)
            return 0, top
        if most is None:
            # Towards zero as the divisor grows, or to -1 from below.
            most = least if low is None or low < 0 else None
        smallest = None if low is None else (low // least if low < 0 else 0 if most is None else low // most)
        largest = None if high is None else (high // least if high >= 0 else -1)
        return smallest, largest


def _product(a: Interval, b: Interval) -> Interval:
    if None in a or None in b:
        positive = a[0] is not None and b[0] is not None and a[0] >= 0 and b[0] >= 0
        return (a[0] * b[0], None) if positive else ANY  # type: ignore[operator]  # both are known
    corners = [x * y for x in a for y in b]  # type: ignore[operator]  # none is None
    return min(corners), max(corners)
