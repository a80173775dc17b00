"""What a contract may lack: the weakest usual clause under which a counterexample could not be.

A clause is tried only if the counterexample breaks it. It is named if with it the failed question holds, and what
the question is about can still happen: a clause that merely forbids the access is none that is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations, islice, permutations, product
from typing import Any

from kvproof.harness.prove.kernels import kinds
from kvproof.harness.prove.kernels.arguments import DTYPE_RANGES, SymbolicTensor
from kvproof.harness.prove.kernels.ask import Asker
from kvproof.harness.prove.kernels.clauses import Clauses
from kvproof.harness.prove.kernels.properties import Found
from kvproof.harness.prove.kernels.questions import Questions
from kvproof.harness.solve.query import Budget, Outcome, Query
from kvproof.models.contract import Clause, ConcreteArguments, Contract, Scalar, TensorValue, broken_clauses

MOST_ELEMENTS = 200
"""Elements of a tensor whose clauses are tried: what is said of pairs is looked at for all of them."""

MOST_TOGETHER = 6
"""Clauses that the counterexample breaks, of which two together are tried."""

MOST_TRIES = 40
"""Clauses and pairs tried at most."""

BUDGET = Budget(resources=300_000, seconds=2.0)
"""For each: what is missing is mostly plain, and a report should not wait long for it."""


def missing_clause(questions: Questions, found: Found, values: Mapping[str, Any]) -> str:
    """The weakest clause, or two, that would exclude a counterexample; empty if none of the usual ones does.

    Args:
        questions: the launch.
        found: the failed question.
        values: the counterexample's arguments.
    """
    contract = questions.setting.contract
    extents = {e: values[e] for t in contract.tensors for e in t.shape if isinstance(e, str) and e in values}
    arguments = ConcreteArguments(contract, values, extents)
    broken = [c for c in _candidates(questions, values) if _breaks(contract, c, arguments)]
    asker = Asker(questions.asker.solver, BUDGET)
    tries = ((c,) for c in broken), combinations(broken[:MOST_TOGETHER], 2)
    for clauses in islice(chain(*tries), MOST_TRIES):
        if _excludes(questions, found, clauses, asker):
            return " and ".join(c.name for c in clauses)
    return ""


def _candidates(questions: Questions, values: Mapping[str, Any]) -> Iterator[Clause]:
    """The usual clauses of every integer tensor and pair of extents, the weakest first."""
    contract, known = questions.setting.contract, questions.setting.values
    tensors = [
        t
        for t in contract.tensors
        if isinstance(value := known.get(t.name), SymbolicTensor)
        and value.kind in DTYPE_RANGES
        and isinstance(given := values.get(t.name), TensorValue)
        and 0 < given.array.size <= MOST_ELEMENTS
    ]
    extents = list(dict.fromkeys(e for t in contract.tensors for e in t.shape if isinstance(e, str)))
    scalars = [s.name for s in contract.arguments if isinstance(s, Scalar) and s.name not in extents]
    for low in (0, 1):
        yield from (kinds.not_below(one, low) for one in (*scalars, *extents))
    numbers = sorted({n for n in questions.launch.signature.constants.values() if type(n) is int and n > 1})
    yield from (kinds.no_larger(one, two) for one, two in permutations([*extents, *scalars], 2))
    yield from (kinds.no_larger(one, number) for one, number in product([*extents, *scalars], numbers))
    yield from (kinds.at_least(tensor, 0) for tensor in tensors)
    places = list(product(tensors, (*extents, *scalars)))
    yield from (kinds.at_most(tensor, extent) for tensor, extent in places)
    yield from (kinds.below(tensor, extent) for tensor, extent in places)
    lists = [tensor for tensor in tensors if len(tensor.shape) == 1]
    yield from (kinds.rising(tensor) for tensor in lists)
    yield from (kinds.distinct(tensor) for tensor in lists)
    yield from (kinds.between(tensor, 0, extent) for tensor, extent in places)
    yield from (kinds.consecutive(tensor) for tensor in lists)


def _breaks(contract: Contract, clause: Clause, arguments: Any) -> bool:
    """Whether some arguments break a clause: not only by having no element that it could be about."""
    try:
        if not clause.over:
            return not bool(clause.holds(arguments))
        return any(at for _, at in broken_clauses(replace(contract, requires=(clause,)), arguments))
    except (AttributeError, TypeError):
        return False  # it speaks of what this launch does not have


def _excludes(questions: Questions, found: Found, clauses: Sequence[Clause], asker: Asker) -> bool:
    contract = replace(questions.setting.contract, requires=tuple(clauses))
    stated = Clauses(contract, questions.setting.arguments, questions.follows)
    if stated.skipped:
        return False
    given = [*stated.always, *found.given]
    premises = questions.premises([*given, found.goal])
    premises = (*premises, *stated.at([*premises, *given, found.goal]), *given)
    if asker.ask(Query(premises, found.goal)).outcome is not Outcome.UNSAT:
        return False
    return asker.ask(Query(premises)).outcome is Outcome.SAT
