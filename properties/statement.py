"""Statements about a layout: written once, checked three ways.

A statement's body gets a system (a concrete pool, or one whose sizes are symbolic) and a *chooser* that
supplies its free values, and returns the condition that must hold. The chooser decides what checking means:

- drawing (hypothesis): each value is drawn, the condition is asserted;
- enumeration: every combination of values in turn;
- proof: each integer is a symbolic one, ``pick`` tries each option as a case of its own, and the claim must
  follow from the assumptions for all of them.

So a proof is a proof of the statement that fuzzing runs, over the code of models/ that fuzzing runs.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, cast

from kvproof.models.index import Condition, IndexValue

T = TypeVar("T")


class Chooser(Protocol):
    """Supplies the free values of a statement."""

    def integer(self, name: str, low: IndexValue, high: IndexValue, few: IndexValue | None = None) -> IndexValue:
        """An integer with ``low <= value <= high``. An empty range makes the case vacuous.

        ``few`` is for ranges too long to enumerate: an enumeration stops there, and most draws do.
        """
        ...

    def pick(self, name: str, options: Sequence[T]) -> T:
        """One of finitely many options, always concrete: a class, a kind of row. Few, since a proof tries all."""
        ...

    def assume(self, condition: Condition) -> None:
        """Restrict the statement to cases where the condition holds."""
        ...

    def accepted(self, build: Callable[[], T]) -> T:
        """Whatever ``build`` makes; a case in which it refuses (LayoutError) is vacuous, not a failure.

        For a second layout inside a statement: a proof takes what the constructor requires as premises here,
        where elsewhere in a body it is an obligation.
        """
        ...

    def lemma(self, name: str, condition: Condition) -> None:
        """A step towards the claim that holds by itself. Proved (or asserted) first, then usable."""
        ...

    def event(self, name: str, happened: Condition = True) -> None:
        """Note that a case of some kind was met. A property that never met its events does not pass."""
        ...


@dataclass(frozen=True)
class Needs:
    """What a fuzzed property must have seen to count as PASS.

    Attributes:
        cases: cases run, at least this many.
        events: for each event name, how many cases had to show it.
    """

    cases: int
    events: Mapping[str, int] = field(default_factory=dict[str, int])


class Body(Protocol):
    """``slip`` is 0, or 1 in the twin, which weakens one premise or tightens one bound by one step."""

    def __call__(self, system: Any, /, choose: Chooser, slip: int = 0) -> Condition: ...


@dataclass(frozen=True)
class Statement:
    """A registered statement.

    Attributes:
        name: "window/window", unique.
        words: what holds, in one sentence.
        system: the system it speaks of ("row-space").
        body: the statement.
        needs: what a fuzzed run must have seen.
        twin: what ``slip=1`` changes, in words: the twin must be refuted, or the statement says too little.
    """

    name: str
    words: str
    system: str
    body: Body
    needs: Needs
    twin: str


_statements: dict[str, Statement] = {}


def statement(
    name: str, words: str, *, system: str = "row-space", needs: Needs, twin: str
) -> Callable[[Body], Body]:
    """Register the decorated body as a statement."""

    def add(body: Body) -> Body:
        if name in _statements:
            raise ValueError(f"statement {name!r} is registered twice")
        _statements[name] = Statement(name, words, system, body, needs, twin)
        return body

    return add


def all_statements(system: str | None = None) -> Mapping[str, Statement]:
    """Every statement by name, after importing each module of properties/layouts/ once."""
    package = importlib.import_module("kvproof.properties.layouts")
    for module in pkgutil.iter_modules(cast("list[str]", package.__path__)):
        importlib.import_module(f"kvproof.properties.layouts.{module.name}")
    return {n: s for n, s in sorted(_statements.items()) if system is None or s.system == system}
