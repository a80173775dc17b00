"""Symbolic execution of a statement: every path through its body, with what each has to show."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

from kvproof.harness.prove.subject import Subject
from kvproof.harness.solve.term import FALSE, Term, integer, le, variable
from kvproof.harness.symbolic import (
    DeadEnd,
    Execution,
    NoCase,
    Obligation,
    PathBudgetError,
    SymInt,
    UnsupportedError,
    VacuousPath,
    condition_term,
    index_term,
)
from kvproof.harness.symbolic.execution import Feasible
from kvproof.models.errors import LayoutError
from kvproof.models.index import Condition, IndexValue
from kvproof.properties.statement import Statement

T = TypeVar("T")

MAX_PATHS = 4096


@dataclass
class ProofChooser:
    """Chooser of a proof: integers are symbolic, each option of a pick is a path of its own.

    Attributes:
        execution: the run.
        picks: options picked so far, by name.
        names: integers chosen so far, in order.
    """

    execution: Execution
    picks: dict[str, Any] = field(default_factory=dict[str, Any])
    names: list[str] = field(default_factory=list[str])

    def integer(self, name: str, low: IndexValue, high: IndexValue, few: IndexValue | None = None) -> IndexValue:
        """A symbolic integer within the range. ``few`` is for enumerations only: a proof covers the range."""
        del few
        if name in self.names or name in self.picks:
            raise ValueError(f"a statement chose {name!r} twice; every choice needs a name of its own")
        self.names.append(name)
        value = variable(name)
        self.execution.assume(le(index_term(low), value))
        self.execution.assume(le(value, index_term(high)))
        return SymInt(value)

    def pick(self, name: str, options: Sequence[T]) -> T:
        """One option here, each other one on a path of its own."""
        if not options:
            raise NoCase(f"{name} has no option")
        option = options[self.execution.pick(len(options))]
        self.picks[name] = option
        return option

    def assume(self, condition: Condition) -> None:
        """A further premise."""
        self.execution.assume(condition_term(condition))

    def accepted(self, build: Callable[[], T]) -> T:
        """What ``build`` makes, for all arguments that it accepts."""
        try:
            with self.execution.assuming():
                return build()
        except LayoutError as error:
            raise VacuousPath(str(error)) from error

    def lemma(self, name: str, condition: Condition) -> None:
        """An obligation, usable from here on."""
        self.execution.oblige("lemma", name, condition_term(condition))

    def event(self, name: str, happened: Condition = True) -> None:
        """Nothing: a proof covers every case, and its vacuity check shows that there is one."""


@dataclass(frozen=True)
class Path:
    """One path through a statement's body.

    Attributes:
        decisions: the branches that lead here; the same branches lead to the same path of the twin.
        picks: options picked, by name.
        names: names of all free values: sizes, then integers in order of choice.
        premises: what holds where the claim is made.
        obligations: what it has to show, in order.
        vacuous: why its end is not reached, so that nothing is claimed there; empty normally.
        applies: False if that is because the subject has no such case at all.
    """

    decisions: tuple[int, ...]
    picks: dict[str, Any]
    names: tuple[str, ...]
    premises: tuple[Term, ...]
    obligations: tuple[Obligation, ...]
    vacuous: str = ""
    applies: bool = True

    @property
    def label(self) -> str:
        """The picks as text."""
        return ", ".join(f"{name} = {option}" for name, option in self.picks.items())


def explore(subject: Subject, statement: Statement, feasible: Feasible, slip: int = 0) -> Iterator[Path]:
    """Every path through a statement on a subject.

    Raises:
        UnsupportedError: the code did something that has no symbolic meaning, or branches too often.
    """
    system, premises = symbolic_system(subject)
    waiting: list[tuple[int, ...]] = [()]
    count = 0
    while waiting:
        count += 1
        if count > MAX_PATHS:
            raise PathBudgetError(f"more than {MAX_PATHS} paths")
        execution = Execution(waiting.pop(), feasible, premises=premises)
        yield _run(subject, system, statement, execution, slip)
        waiting += reversed(execution.untried)


@lru_cache(maxsize=8)
def symbolic_system(subject: Subject) -> tuple[Any, tuple[Term, ...]]:
    """The subject with symbolic sizes, and what its constructor accepts.

    Made once, since every path of every statement starts with it; so its construction must not branch.

    Raises:
        UnsupportedError: it branches, or refuses all sizes.
    """

    def no_branch(premises: tuple[Term, ...]) -> bool:
        raise UnsupportedError(f"building {subject.name} branches on {premises[-1]}")

    execution = Execution((), no_branch)
    with execution.active(), execution.assuming(), _only_known_errors():
        sizes: dict[str, IndexValue] = {}
        for name in subject.sizes:
            value = variable(name)
            execution.assume(le(integer(0), value))
            sizes[name] = SymInt(value)
        try:
            return subject.build(sizes), tuple(execution.premises)
        except (LayoutError, VacuousPath) as error:
            raise UnsupportedError(f"{subject.name} has no layout: {error}") from error


def _run(subject: Subject, system: Any, statement: Statement, execution: Execution, slip: int) -> Path:
    chooser = ProofChooser(execution)
    vacuous, applies = "", True
    premises: tuple[Term, ...] | None = None
    with execution.active(), _only_known_errors():
        try:
            claim = condition_term(statement.body(system, chooser, slip))
            premises = tuple(execution.premises)
            execution.oblige("claim", "claim", claim)
        except VacuousPath as left:
            vacuous, applies = str(left), not isinstance(left, NoCase)
        except DeadEnd:
            pass
        except (LayoutError, ZeroDivisionError) as error:
            # The code refuses whatever the values: that this point is never reached has to be shown.
            execution.obligations.append(Obligation("require", str(error), tuple(execution.premises), FALSE))
    names = (*subject.sizes, *chooser.names)
    return Path(
        tuple(execution.decisions),
        chooser.picks,
        names,
        tuple(execution.premises) if premises is None else premises,
        tuple(execution.obligations),
        vacuous,
        applies,
    )


@contextmanager
def _only_known_errors() -> Iterator[None]:
    """What code raises because a value is symbolic becomes UNSUPPORTED; its own mistakes stay what they are."""
    try:
        yield
    except (TypeError, RecursionError) as error:
        raise UnsupportedError(f"{type(error).__name__}: {error}") from error
