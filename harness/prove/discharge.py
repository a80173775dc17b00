"""Obligations to queries, and queries to solvers: what is asked, of whom, and what is done with the answers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kvproof.harness.solve.backends import Backend
from kvproof.harness.solve.query import Answer, Budget, Outcome, Query
from kvproof.harness.solve.smtlib import Script, script
from kvproof.harness.solve.term import Term, and_, evaluate, free_variables, substitute
from kvproof.harness.symbolic import Obligation


@dataclass(frozen=True)
class Group:
    """Obligations answered by one query: the same premises, apart from each other's goals.

    Attributes:
        obligations: one or more.
        query: whether all of them follow.
    """

    obligations: tuple[Obligation, ...]
    query: Query

    @property
    def name(self) -> str:
        """What it shows."""
        first = self.obligations[0]
        if first.kind == "require":
            return f"{len(self.obligations)} argument checks" if len(self.obligations) > 1 else first.name
        return first.name

    @property
    def kind(self) -> str:
        """ "require", "lemma" or "claim"."""
        return self.obligations[0].kind

    def broken(self, values: dict[str, int | bool]) -> Obligation | None:
        """The first obligation that the values contradict."""
        for obligation in self.obligations:
            if not _holds(obligation.goal, values):
                return obligation
        return None


def _holds(goal: Term, values: dict[str, int | bool]) -> bool:
    try:
        return bool(evaluate(goal, values))
    except ZeroDivisionError:
        return False


def grouped(obligations: Sequence[Obligation]) -> Iterator[Group]:
    """Argument checks without an assumption between them go into one query; lemmas and claims have their own."""
    waiting: list[Obligation] = []
    known: set[Term] = set()
    for obligation in obligations:
        joins = waiting and obligation.kind == "require" and set(obligation.premises) <= known
        if waiting and not joins:
            yield _group(waiting)
            waiting = []
        if not waiting:
            known = set(obligation.premises)
        known.add(obligation.goal)
        known.update(obligation.goal.args if obligation.goal.op == "and" else ())
        waiting.append(obligation)
        if obligation.kind != "require":
            yield _group(waiting)
            waiting = []
    if waiting:
        yield _group(waiting)


def _group(obligations: list[Obligation]) -> Group:
    goal = and_(*(o.goal for o in obligations))
    return Group(tuple(obligations), Query(obligations[0].premises, goal))


Samples = Sequence[Mapping[str, int]]


@dataclass
class Solvers:
    """Solvers with their budget, and the answers they have given in this process.

    Attributes:
        backends: the solvers; the first one also finds counterexamples and decides branches.
        budget: what one query may cost each of them.
        asked: queries put to a solver.
        reused: queries answered from memory, since another obligation had the same text.
    """

    backends: Sequence[Backend]
    budget: Budget = field(default_factory=Budget)
    asked: int = 0
    reused: int = 0
    _queries: dict[tuple[Query, str], Answer] = field(default_factory=dict[tuple[Query, str], Answer])
    _answers: dict[tuple[str, str], tuple[Answer, tuple[str, ...]]] = field(
        default_factory=dict[tuple[str, str], tuple[Answer, tuple[str, ...]]]
    )

    def all(self, query: Query, samples: Samples = ()) -> list[Answer]:
        """Each solver's answer."""
        return [self.ask(query, backend, samples) for backend in self.backends]

    def ask(self, query: Query, backend: Backend | None = None, samples: Samples = ()) -> Answer:
        """One solver's answer (the first one's by default).

        Asked is first the part of the question that hangs together with the goal; only a counterexample needs the
        rest. Products are first taken as opaque, which is cheap and nearly always enough. ``unsat`` counts at
        any stage, ``sat`` only of the whole question.

        Args:
            query: the question.
            backend: the solver.
            samples: values of some variables at which a counterexample is looked for before everywhere.
        """
        backend = backend or self.backends[0]
        known = self._queries.get((query, backend.name))
        if known is None:
            known = self._queries[query, backend.name] = self._ask(query, backend, samples)
        else:
            self.reused += 1
        return known

    def _ask(self, query: Query, backend: Backend, samples: Samples) -> Answer:
        part = connected(query)
        text = script(part, opaque=True)
        answer = self._solve(text, backend)
        if text.opaque and answer.outcome is not Outcome.UNSAT:
            answer = self._solve(script(part, opaque=True, sums=True), backend)
        if answer.outcome is Outcome.UNSAT or (answer.outcome is Outcome.UNKNOWN and not text.opaque):
            return answer
        return self.counterexample(query, backend, samples)

    def counterexample(self, query: Query, backend: Backend | None = None, samples: Samples = ()) -> Answer:
        """One solver's answer where ``sat`` is expected: the whole question, at the samples first."""
        backend = backend or self.backends[0]
        for sample in samples:
            *premises, goal = substitute([*query.premises, query.goal], sample)
            answer = self._solve(script(Query(tuple(premises), goal)), backend)
            if answer.outcome is Outcome.SAT:
                return replace(answer, model={**answer.model, **sample})
        return self._solve(script(query), backend)

    def feasible(self, premises: tuple[Term, ...]) -> bool:
        """Whether premises may hold together: False only if they provably cannot."""
        return self.ask(Query(premises)).outcome is not Outcome.UNSAT

    def _solve(self, text: Script, backend: Backend) -> Answer:
        key = (backend.name, text_hash(text.text))
        names = tuple(name for _, name, _ in text.symbols)
        found = self._answers.get(key)
        if found is not None:
            self.reused += 1
            answer, asked = found
            # Equal texts number their variables alike, but this query's variables have names of their own.
            model = {new: answer.model[old] for old, new in zip(asked, names, strict=True) if old in answer.model}
            return replace(answer, model=model)
        self.asked += 1
        answer = backend.solve(text, self.budget)
        self._answers[key] = answer, names
        return answer


def connected(query: Query) -> Query:
    """The query without premises that share no variable with the goal, directly or through other premises.

    Itself if that is all of them, or if the goal is a constant.
    """
    reached = set(free_variables(query.goal))
    if not reached:
        return query
    waiting = list(query.premises)
    while True:
        apart: list[Term] = []
        for premise in waiting:
            if reached.isdisjoint(free_variables(premise)):
                apart.append(premise)
            else:
                reached.update(free_variables(premise))
        if len(apart) == len(waiting):
            break
        waiting = apart
    if not waiting:
        return query
    left_out = set(waiting)
    return Query(tuple(p for p in query.premises if p not in left_out), query.goal)


def text_hash(text: str) -> str:
    """Hash of a normalised query."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]
