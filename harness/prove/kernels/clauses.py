"""What the caller guarantees, at the elements that a question is about.

A clause holds for all its indices; a solver gets it only at those where the question looks: an element
``positions[x]`` in the question makes the clause's ``positions[t]`` worth stating at ``t = x``. No quantifiers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from kvproof.harness.prove.kernels.arguments import Formula, SymbolicArguments
from kvproof.harness.solve.term import (
    TRUE,
    Term,
    add,
    and_,
    apply,
    integer,
    le,
    linear,
    lt,
    not_,
    or_,
    sub,
    variable,
    walk,
)
from kvproof.harness.symbolic.execution import UnsupportedError
from kvproof.harness.symbolic.values import condition_term, index_term, simplest
from kvproof.models.contract import Clause, Contract

MOST = 600
"""Instances stated at most; a question that would need more is answered without the rest, or not at all."""


@dataclass(frozen=True)
class Trigger:
    """An element that a clause speaks of: function, argument place, and the argument as an index and a shift."""

    function: str
    place: int
    index: int
    shift: int


@dataclass(frozen=True)
class Rising:
    """A function that never falls between two bounds, shown by induction from a clause about neighbours."""

    function: str
    low: Term
    stop: Term
    clause: str


class Clauses:
    """The clauses of a contract.

    Args:
        contract: the contract.
        arguments: what its functions see.
        follows: whether a condition follows from premises, for the induction of rising functions.

    Attributes:
        always: the clauses without indices.
        skipped: clauses that cannot be stated symbolically, with the reason; they are not assumed.
        derived: what was shown by induction.
    """

    def __init__(
        self, contract: Contract, arguments: SymbolicArguments, follows: Callable[[list[Term], Term], bool]
    ) -> None:
        self._arguments = arguments
        self._clauses: list[tuple[Clause, list[Trigger]]] = []
        self.always: list[Term] = []
        self.skipped: dict[str, str] = {}
        self.derived: list[Rising] = []
        self._stated: dict[tuple[str, tuple[Term, ...]], Term] = {}
        for clause in contract.requires:
            try:
                if clause.over:
                    self._clauses.append((clause, self._triggers(clause)))
                else:
                    with Formula().active():
                        self.always.append(condition_term(clause.holds(arguments)))
            except (UnsupportedError, TypeError, AttributeError) as problem:
                self.skipped[clause.name] = str(problem)
        for clause, _ in self._clauses:
            self.derived += self._rising(clause, follows)

    # ---- shape of a clause ------------------------------------------------------

    def _indices(self, clause: Clause) -> list[Term]:
        return [variable(f"index {clause.name} {place}") for place in range(len(clause.over))]

    def _triggers(self, clause: Clause) -> list[Trigger]:
        indices = self._indices(clause)
        found: dict[Trigger, None] = {}
        for term in walk(self._instance(clause, tuple(indices))):
            if term.op != "app":
                continue
            for place, argument in enumerate(term.args):
                shift, atoms = linear(argument)
                if len(atoms) == 1:
                    ((atom, factor),) = atoms.items()
                    if factor == 1 and atom in indices:
                        found[Trigger(term.payload, place, indices.index(atom), shift)] = None
        return list(found)

    def _instance(self, clause: Clause, at: tuple[Term, ...]) -> Term:
        """The clause at some indices: if they are in range, it holds."""
        key = (clause.name, at)
        known = self._stated.get(key)
        if known is None:
            a: Any = self._arguments
            values = [simplest(term) for term in at]
            conditions: list[Term] = []
            with Formula().active():
                for place, index in enumerate(clause.over):
                    low, stop = (index_term(b(a, *values[:place])) for b in (index.low, index.stop))
                    conditions += [le(low, at[place]), lt(at[place], stop)]
                holds = condition_term(clause.holds(a, *values))
            known = self._stated[key] = or_(not_(and_(*conditions)), holds)
        return known

    # ---- instances -----------------------------------------------------------------

    def at(self, terms: Iterable[Term], rounds: int = 2) -> list[Term]:
        """The clauses at the elements that the terms are about, and (in a second round) at those these lead to."""
        stated: dict[Term, None] = {}
        seen: set[Term] = set()
        frontier = list(terms)
        for _ in range(rounds):
            fresh = [t for t in walk(*frontier) if t.op == "app" and t not in seen]
            if not fresh:
                break
            seen.update(fresh)
            frontier = []
            for instance in self._matching(seen, set(fresh)):
                if instance is not TRUE and instance not in stated:
                    stated[instance] = None
                    frontier.append(instance)
                if len(stated) > MOST:
                    return list(stated)
        for term in self._risings(seen):
            stated[term] = None
        return list(stated)

    def _matching(self, elements: set[Term], fresh: set[Term]) -> Iterator[Term]:
        ordered = sorted(elements, key=lambda t: t.key)
        for clause, triggers in self._clauses:
            choices: list[dict[Term, None]] = [{} for _ in clause.over]
            for trigger in triggers:
                for element in ordered:
                    if element.payload == trigger.function and len(element.args) > trigger.place:
                        choices[trigger.index][sub(element.args[trigger.place], integer(trigger.shift))] = None
            if not all(choices):
                continue
            for at in product(*choices):
                instance = self._instance(clause, at)
                if len(clause.over) == 1 or not fresh.isdisjoint(walk(instance)) or instance not in self._stated:
                    yield instance

    # ---- rising functions -------------------------------------------------------------

    def _rising(self, clause: Clause, follows: Callable[[list[Term], Term], bool]) -> Iterator[Rising]:
        """Functions of one index of which the clause says that each element is at most the next."""
        if len(clause.over) != 1:
            return
        (index,) = self._indices(clause)
        a: Any = self._arguments
        with Formula().active():
            holds = condition_term(clause.holds(a, simplest(index)))
            low, stop = (index_term(b(a)) for b in (clause.over[0].low, clause.over[0].stop))
        names = {t.payload for t in walk(holds) if t.op == "app" and t.args == (index,)}
        for name in sorted(names):
            following = apply(name, [add(index, integer(1))])
            if following in set(walk(holds)) and follows([holds], le(apply(name, [index]), following)):
                yield Rising(name, low, stop, clause.name)

    def _risings(self, elements: set[Term]) -> Iterator[Term]:
        for rising in self.derived:
            points = sorted({t.args[0] for t in elements if t.payload == rising.function}, key=lambda t: t.key)
            for i in points:
                for j in points:
                    if i is not j:
                        between = and_(le(rising.low, i), le(i, j), le(j, rising.stop))
                        ordered = le(apply(rising.function, [i]), apply(rising.function, [j]))
                        yield or_(not_(between), ordered)
