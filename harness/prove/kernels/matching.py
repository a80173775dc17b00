"""Which quantity, or small formula of quantities, a series of numbers is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kvproof.harness.solve.term import Term, add, div, integer, mul, neg, scale

Series = Sequence[int]


class NoMatch(Exception):  # noqa: N818  (a verdict, not a mistake)
    """No formula gives the numbers."""


class Matcher:
    """Finds formulas.

    Args:
        known: each quantity with its number in every run.
        divisors: numbers by which a launcher may divide: the kernel's constants.
    """

    def __init__(self, known: Sequence[tuple[Term, Series]], divisors: Sequence[int]) -> None:
        self._known = known
        self._divisors = list(dict.fromkeys(divisors))

    def term(self, numbers: Series) -> Term:
        """The simplest formula that gives the numbers: a constant, ``q``, ``a*q + b``, a quotient, a product.

        Raises:
            NoMatch: none does.
        """
        if len(set(numbers)) == 1:
            return integer(numbers[0])
        for formula in (self._same, self._affine, self._quotient, self._product):
            found = next(formula(numbers), None)
            if found is not None:
                return found
        raise NoMatch(f"no formula of the extents and scalars gives {list(numbers)}")

    def _same(self, numbers: Series) -> Iterator[Term]:
        return (term for term, series in self._known if list(series) == list(numbers))

    def _affine(self, numbers: Series) -> Iterator[Term]:
        for term, series in self._known:
            pair = _line(series, numbers)
            if pair is not None:
                yield add(scale(pair[0], term), integer(pair[1]))

    def _quotient(self, numbers: Series) -> Iterator[Term]:
        rounding: tuple[tuple[Callable[[int, int], int], Callable[[Term, Term], Term]], ...] = (
            (lambda n, d: -(-n // d), lambda n, d: neg(div(neg(n), d))),
            (lambda n, d: n // d, div),
        )
        for term, series in self._known:
            for divisor in self._divisors:
                for number, formula in rounding:
                    if [number(n, divisor) for n in series] == list(numbers):
                        yield formula(term, integer(divisor))

    def _product(self, numbers: Series) -> Iterator[Term]:
        for place, (a, first) in enumerate(self._known):
            for b, second in self._known[place:]:
                pair = _line([x * y for x, y in zip(first, second, strict=True)], numbers)
                if pair is not None and pair[1] == 0:
                    yield scale(pair[0], mul(a, b))


def _line(series: Series, numbers: Series) -> tuple[int, int] | None:
    """(a, b) with ``numbers = a*series + b`` everywhere."""
    ends = [(s, n) for s, n in zip(series, numbers, strict=True)]
    (s0, n0), *others = ends
    differing = next(((s, n) for s, n in others if s != s0), None)
    if differing is None:
        return None
    rise, run = differing[1] - n0, differing[0] - s0
    if rise % run or rise == 0:
        return None
    a = rise // run
    b = n0 - a * s0
    return (a, b) if all(n == a * s + b for s, n in ends) else None
