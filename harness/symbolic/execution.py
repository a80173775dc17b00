"""One symbolic run of ordinary Python code: what it may assume, what it has to show, how it branched.

A truth value that the run needs but that its premises leave open splits the run: it goes on with one value
as a further premise, and a later run takes the other (the same code from the start, with the decisions so far
replayed). Nothing is guessed; a side that the premises exclude is not entered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from kvproof.harness.solve.term import FALSE, TRUE, Term, conjuncts, not_


class UnsupportedError(Exception):
    """Code did something to a symbolic value that has no symbolic meaning here. Never a PASS."""


class PathBudgetError(UnsupportedError):
    """The code branches more often than the budget allows."""


class VacuousPath(Exception):  # noqa: N818  (not an error: nothing is claimed of this path)
    """The premises of this path contradict each other, or the case was left: nothing is claimed of it."""


class NoCase(VacuousPath):
    """The system has no such case at all: a pick without options."""


class DeadEnd(Exception):  # noqa: N818  (not an error: the obligation noted last says it all)
    """An obligation contradicts its premises, so nothing can follow it."""


@dataclass(frozen=True)
class Obligation:
    """Something that has to follow from its premises.

    Attributes:
        kind: "require" (an argument check of models/), "lemma" or "claim".
        name: the check's message, the lemma's name, or "claim".
        premises: conditions taken to hold.
        goal: the condition to show.
    """

    kind: str
    name: str
    premises: tuple[Term, ...]
    goal: Term


Feasible = Callable[[tuple[Term, ...]], bool]
"""Whether premises may hold together. False only if they provably cannot."""


class Execution:
    """The state of one run.

    Args:
        decisions: the branches that the run replays, in order: 0 or 1 for a truth test, else a picked place.
        feasible: consulted where a truth test splits the run.
        premises: what holds from the start.
        limit: most branches on one path.

    Attributes:
        premises: what holds on this path.
        obligations: what has to be shown, in the order met.
        decisions: every branch of this run.
        untried: for each branch newly met, the decisions that lead to its other sides.
    """

    def __init__(
        self, decisions: tuple[int, ...], feasible: Feasible, *, premises: Iterable[Term] = (), limit: int = 64
    ) -> None:
        self.premises: list[Term] = list(premises)
        self.obligations: list[Obligation] = []
        self.decisions: list[int] = []
        self.untried: list[tuple[int, ...]] = []
        self._replay = decisions
        self._feasible = feasible
        self._limit = limit
        self._known: set[Term] = set(self.premises)
        self._assuming = False

    def knows(self, condition: Term) -> bool:
        """Whether each part of the condition is literally among the premises."""
        return all(part is TRUE or part in self._known for part in conjuncts(condition))

    def assume(self, condition: Term) -> None:
        """Add a premise.

        Raises:
            VacuousPath: the condition is false whatever the values.
        """
        for part in conjuncts(condition):
            if part is FALSE or not_(part) in self._known:
                raise VacuousPath("an assumption contradicts the premises")
            if part is not TRUE and part not in self._known:
                self._known.add(part)
                self.premises.append(part)

    def oblige(self, kind: str, name: str, goal: Term) -> None:
        """Note something to show; once noted it may be used, since it is shown before all that follows.

        Raises:
            DeadEnd: it plainly does not hold.
        """
        if self.knows(goal):
            return
        self.obligations.append(Obligation(kind, name, tuple(self.premises), goal))
        try:
            self.assume(goal)
        except VacuousPath:
            raise DeadEnd(name) from None

    def require(self, condition: Term, message: str) -> None:
        """An argument check of models/: an obligation, or a premise while a layout is being built."""
        if self._assuming:
            self.assume(condition)
        else:
            self.oblige("require", message, condition)

    @contextmanager
    def assuming(self) -> Iterator[None]:
        """Within: what models/ requires is assumed. For "every layout that the constructor accepts"."""
        before, self._assuming = self._assuming, True
        try:
            yield
        finally:
            self._assuming = before

    def decide(self, condition: Term) -> bool:
        """The truth value of a condition on this path.

        Raises:
            VacuousPath: the premises contradict each other.
            PathBudgetError: too many branches.
        """
        if condition.is_const:
            return bool(condition.payload)
        if self.knows(condition):
            return True
        if self.knows(not_(condition)):
            return False
        replayed = self._replayed()
        value = self._branch(condition) if replayed is None else bool(replayed)
        self.decisions.append(int(value))
        self.assume(condition if value else not_(condition))
        return value

    def pick(self, count: int) -> int:
        """A place among ``count`` alternatives, each taken by a run of its own."""
        replayed = self._replayed()
        if replayed is None:
            self.untried += [(*self.decisions, place) for place in range(1, count)]
        self.decisions.append(replayed or 0)
        return replayed or 0

    def _replayed(self) -> int | None:
        depth = len(self.decisions)
        if depth >= self._limit:
            raise PathBudgetError(f"more than {self._limit} branches on one path")
        return self._replay[depth] if depth < len(self._replay) else None

    def _branch(self, condition: Term) -> bool:
        can_hold = self._feasible((*self.premises, condition))
        can_fail = self._feasible((*self.premises, not_(condition)))
        if can_hold and can_fail:
            self.untried.append((*self.decisions, 0))
        if not can_hold and not can_fail:
            raise VacuousPath("the premises contradict each other")
        return can_hold

    @contextmanager
    def active(self) -> Iterator[None]:
        """Within: symbolic values made anywhere in this thread belong to this run."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)


_current: ContextVar[Execution | None] = ContextVar("kvproof_symbolic_execution", default=None)


def current() -> Execution:
    """The run that is active in this thread.

    Raises:
        UnsupportedError: none is, so a branch on a symbolic value has no meaning.
    """
    execution = _current.get()
    if execution is None:
        raise UnsupportedError("a symbolic value was tested outside a symbolic run")
    return execution
