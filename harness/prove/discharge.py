"""Obligations to queries, and queries to solvers: what is asked, of whom, and what is done with the answers."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic

from kvproof.harness.prove.certificates import Certificate
from kvproof.harness.solve.backends import Backend
from kvproof.harness.solve.query import Answer, Budget, Outcome, Query
from kvproof.harness.solve.smtlib import Script, script
from kvproof.harness.solve.term import Term, and_, evaluate, free_variables, substitute
from kvproof.harness.symbolic import Obligation
from kvproof.reports.result import ALIKE, FROM_LOCK


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


@dataclass(frozen=True)
class Reply:
    """What came of one question.

    Attributes:
        answers: each solver's answer.
        key: hash of the normalised SMT-LIB text that the answers are about.
    """

    answers: tuple[Answer, ...]
    key: str

    @property
    def decided(self) -> bool:
        """No solver has left it open."""
        return all(answer.outcome is not Outcome.UNKNOWN for answer in self.answers)

    @property
    def proved(self) -> bool:
        """Every solver says that the goal follows."""
        return all(answer.outcome is Outcome.UNSAT for answer in self.answers)


@dataclass
class Solvers:
    """Solvers with their budget, and the answers they have given in this process.

    Attributes:
        backends: the solvers; the first one also finds counterexamples and decides branches.
        budget: what one query may cost each of them.
        shuffle: seed of the order of assertions; None keeps the query's own.
        certificates: proofs of earlier runs, by hash of the text. They have to be of the same solvers' versions.
        shared: proofs that other processes have made in this run, likewise.
        frozen: nothing is asked; what has no certificate is unknown.
        on_question: told what is about to be asked of whom.
        asked: queries put to a solver.
        reused: queries answered from memory, since another obligation had the same text.
        fresh: certificates used or made in this run.
    """

    backends: Sequence[Backend]
    budget: Budget = field(default_factory=Budget)
    shuffle: int | None = None
    certificates: dict[str, Certificate] = field(default_factory=dict[str, Certificate])
    shared: dict[str, Certificate] = field(default_factory=dict[str, Certificate])
    frozen: bool = False
    on_question: Callable[[str], None] | None = None
    fresh: dict[str, Certificate] = field(default_factory=dict[str, Certificate])
    asked: int = 0
    reused: int = 0
    _replies: dict[Query, Reply] = field(default_factory=dict[Query, Reply])
    _answers: dict[tuple[str, str], tuple[Answer, tuple[str, ...]]] = field(
        default_factory=dict[tuple[str, str], tuple[Answer, tuple[str, ...]]]
    )
    _cores: dict[tuple[str, str], tuple[Answer, tuple[int, ...]]] = field(
        default_factory=dict[tuple[str, str], tuple[Answer, tuple[int, ...]]]
    )

    _about: str = ""
    _seconds: float = math.inf
    _until: float = math.inf

    def begin(self, about: str, seconds: float = math.inf) -> None:
        """What is asked from now on belongs together, and may take so many seconds; after that all is unknown."""
        self._about, self._seconds, self._until = about, seconds, monotonic() + seconds
        if self.on_question:
            self.on_question(f"working on {about}")
        # What was unknown for want of time is no answer to the next one.
        self._replies = {query: reply for query, reply in self._replies.items() if reply.decided}

    def origin(self, key: str) -> str:
        """Where the answers to a text came from for which nothing was asked now."""
        return FROM_LOCK if key in self.certificates else ALIKE

    def prove(self, query: Query, samples: Samples = ()) -> Reply:
        """Each solver's answer to a question that is expected to be a proof.

        The first solver finds the weakest text that proves the goal: the part of the question that hangs together
        with the goal, its products opaque where it has any, cut down to an unsatisfiable core if the solver
        gives one. All solvers are then asked that text. ``unsat`` counts of any such text, since it says less
        than the question; ``sat`` counts only of the whole question.

        Args:
            query: the question.
            samples: values of some variables at which a counterexample is looked for before everywhere.
        """
        known = self._replies.get(query)
        if known is not None:
            self.reused += 1
            return known
        reply = self._replies[query] = self._prove(query, samples)
        return reply

    def _prove(self, query: Query, samples: Samples) -> Reply:
        first, *others = self.backends
        for stage in stages(query, self.shuffle):
            key = text_hash(stage.text)
            known = self._certified(key)
            if known is not None:
                return Reply(known, key)
            if self.frozen:
                continue
            answer, small = self._refute(stage, key, first)
            if answer.outcome is Outcome.UNSAT:
                reply = Reply((answer, *(self._confirm(small, stage, other) for other in others)), key)
                if reply.proved:
                    resources = {a.solver: a.resources for a in reply.answers}
                    self.fresh[key] = Certificate(text_hash(small.text), resources)
                return reply
        whole = script(query)
        if self.frozen:
            nothing = Answer(Outcome.UNKNOWN, first.name, reason="no certificate in the lock file")
            return Reply((nothing,), text_hash(whole.text))
        answers = (self.counterexample(query, backend, samples) for backend in self.backends)
        return Reply(tuple(answers), text_hash(whole.text))

    def _certified(self, key: str) -> tuple[Answer, ...] | None:
        """The answers that a certificate stands for, if there is one of all solvers."""
        known = self.certificates.get(key) or self.shared.get(key)
        if known is None or any(backend.name not in known.resources for backend in self.backends):
            return None
        self.fresh[key] = known
        return tuple(Answer(Outcome.UNSAT, b.name, resources=known.resources[b.name]) for b in self.backends)

    def _refute(self, stage: Script, key: str, backend: Backend) -> tuple[Answer, Script]:
        """The first solver's answer to a stage, and the part of it that the answer rests on if it is unsat."""
        find = getattr(backend, "core", None)
        if find is None:
            return self._solve(stage, backend), stage
        known = self._cores.get((backend.name, key))
        if known is None:
            budget = self._budget_left(backend)
            if isinstance(budget, Answer):
                return budget, stage
            known = find(stage, budget)
            if known[0].outcome is not Outcome.UNKNOWN:
                self._cores[backend.name, key] = known
        else:
            self.reused += 1
        answer, places = known
        return answer, stage.subset(places) if answer.outcome is Outcome.UNSAT else stage

    def _confirm(self, small: Script, stage: Script, backend: Backend) -> Answer:
        """Another solver's answer to what the first one has proved: the core, or if it cannot, all of it.

        Sat is a disagreement about the very same text, whatever that text says.
        """
        answer = self._solve(small, backend)
        if answer.outcome is Outcome.UNKNOWN and small is not stage:
            answer = self._solve(stage, backend)
        return answer

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
        return self.counterexample(Query(premises)).outcome is not Outcome.UNSAT

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
        budget = self._budget_left(backend)
        if isinstance(budget, Answer):
            return budget
        answer = backend.solve(text, budget)
        if answer.outcome is not Outcome.UNKNOWN:
            self._answers[key] = answer, names
        return answer

    def _budget_left(self, backend: Backend) -> Budget | Answer:
        """The budget of the next question, which is about to be asked; an answer to it if no time is left."""
        left = self._until - monotonic()
        if left <= 0:
            reason = f"the {self._seconds:g} s that all questions of {self._about} may take are used up"
            return Answer(Outcome.UNKNOWN, backend.name, reason=reason)
        self.asked += 1
        if self.on_question:
            self.on_question(f"asking {backend.name} about {self._about}")
        return self.budget if left >= self.budget.seconds else replace(self.budget, seconds=left)


def stages(query: Query, shuffle: int | None = None) -> Iterator[Script]:
    """Texts that say ever more of a question, each of which proves it if it is unsatisfiable."""
    part = connected(query)
    if any(term.has_product for term in (*part.premises, part.goal)):
        # With products every premise costs; often those that speak of the goal's own variables do. Where they are
        # most of all, trying them first costs more than it saves.
        few = own(part)
        if 2 * len(few.premises) <= len(part.premises):
            yield script(few, opaque=True, ones=False, shuffle=shuffle)
    text = script(part, opaque=True, ones=False, shuffle=shuffle)
    yield text
    if text.opaque:
        yield script(part, opaque=True, sums=True, shuffle=shuffle)
        yield script(part, shuffle=shuffle)


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


def own(query: Query) -> Query:
    """The query with those premises only whose variables all occur in the goal."""
    variables = set(free_variables(query.goal))
    return Query(tuple(p for p in query.premises if variables.issuperset(free_variables(p))), query.goal)


def text_hash(text: str) -> str:
    """Hash of a normalised query."""
    return hashlib.sha256(text.encode()).hexdigest()[:20]
