"""Asking solvers about kernels, and reading the elements of tensors out of a counterexample."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kvproof.harness.solve.backends import Backend, backend
from kvproof.harness.solve.query import Answer, Budget, Outcome, Query
from kvproof.harness.solve.smtlib import Script, script
from kvproof.harness.solve.term import Term, Value, eq, variable, walk

DEFAULT_BUDGET = Budget(resources=6_000_000, seconds=180.0)
"""Resource units decide, on every machine alike; the seconds are a backstop that a busy machine does not reach."""

ATTEMPTS = ((0, 1_000_000), (6, 1_000_000), (1, 1_000_000))
"""(seed, resource units) tried before the whole budget: where one seed takes long, another often does not."""


@dataclass(frozen=True)
class Example:
    """A counterexample.

    Attributes:
        values: of each variable by name.
        elements: of each tensor element that the question speaks of.
    """

    values: Mapping[str, Value]
    elements: Mapping[Term, int]


@dataclass
class Asker:
    """One solver with its budget, and what it has answered.

    Attributes:
        solver: the solver.
        budget: what one question may cost.
        asked: questions put to it, those that it had answered before too.
        seconds: time that it took.
    """

    solver: Backend = field(default_factory=lambda: backend("z3"))
    budget: Budget = DEFAULT_BUDGET
    asked: int = 0
    seconds: float = 0.0
    _known: dict[Query, Answer] = field(default_factory=dict[Query, Answer])
    _tried: dict[Query, tuple[Answer, bool]] = field(default_factory=dict[Query, tuple[Answer, bool]])

    def ask(self, query: Query) -> Answer:
        """Whether the goal follows from the premises: ``unsat`` if it does.

        Products of variables are first taken as opaque, which is nearly always enough for a proof; only the
        whole question can be ``sat``.
        """
        self.asked += 1
        known = self._known.get(query)
        if known is None:
            known = self._known[query] = self._ask(query)
        return known

    def prove(self, query: Query) -> Answer:
        """A first attempt: ``unsat`` if the goal follows even with products opaque; anything else says nothing."""
        self.asked += 1
        known = self._tried.get(query)
        if known is None:
            text = script(query, opaque=True)
            # Less is said than is known, so an answer may not be there to be found.
            known = self._tried[query] = self._solve(text, ATTEMPTS[:1]), text.opaque
        return known[0]

    def _ask(self, query: Query) -> Answer:
        answer, opaque = self._tried.get(query, (None, True))
        if answer is None or answer.outcome is Outcome.UNKNOWN:
            text = script(query, opaque=True)
            answer, opaque = self._solve(text), text.opaque
        if answer.outcome is Outcome.UNSAT or not opaque:
            return answer
        return self._solve(script(query))

    def _solve(self, text: Script, attempts: Sequence[tuple[int, int]] | None = None) -> Answer:
        start = time.perf_counter()
        answer = Answer(Outcome.UNKNOWN, self.solver.name)
        whole = (self.budget.seed, self.budget.resources)
        if attempts is None:
            attempts = [*(a for a in ATTEMPTS if a[1] < self.budget.resources), whole]
        for seed, resources in attempts:
            answer = self.solver.solve(text, replace(self.budget, seed=seed, resources=resources))
            if answer.outcome is not Outcome.UNKNOWN:
                break
        self.seconds += time.perf_counter() - start
        return answer

    def example(self, premises: Sequence[Term], also: Sequence[Term] = ()) -> Example | None:
        """Values under which conditions hold together; None if the solver finds none.

        Args:
            premises: the conditions.
            also: further terms whose elements are wanted.
        """
        elements = [t for t in walk(*premises, *also) if t.op == "app" and t.sort == "Int"]
        names = {variable(f"element {place}"): term for place, term in enumerate(elements)}
        query = Query((*premises, *(eq(name, term) for name, term in names.items())))
        answer = self._solve(script(query))
        if answer.outcome is not Outcome.SAT:
            return None
        found = {term: int(answer.model.get(name.payload, 0)) for name, term in names.items()}
        values = {n: v for n, v in answer.model.items() if not n.startswith("element ")}
        return Example(values, found)


def within(asker: Asker, seconds: float) -> Asker:
    """The same solver with another time for each question, and a memory of its own."""
    return Asker(asker.solver, replace(asker.budget, seconds=seconds))
