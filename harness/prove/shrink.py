"""The least counterexample: each value in turn as small as the ones before it allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kvproof.harness.prove.discharge import Solvers
from kvproof.harness.solve.query import Outcome, Query
from kvproof.harness.solve.term import Term, Value, eq, integer, le, variable


def least_model(
    query: Query, model: Mapping[str, Value], names: Sequence[str], solvers: Solvers
) -> dict[str, Value]:
    """The lexicographically least model of a satisfiable query.

    Args:
        query: the query.
        model: a model of it.
        names: variables in the order in which they are made small.
        solvers: asked again for each step. A step that is not decided keeps the value it has.
    """
    best = {name: model[name] for name in names if name in model}
    pinned: tuple[Term, ...] = ()
    for name in tuple(best):
        low, high = 0, int(best[name])
        if high < 0:
            continue
        value = variable(name)
        while low < high:
            middle = low if high - low > 8 and low == 0 else (low + high) // 2
            tried = replace(query, premises=(*query.premises, *pinned, le(value, integer(middle))))
            answer = solvers.counterexample(tried)
            if answer.outcome is Outcome.SAT:
                best.update((n, answer.model[n]) for n in best if n in answer.model)
                high = min(middle, int(best[name]))
            elif answer.outcome is Outcome.UNSAT:
                low = middle + 1
            else:
                break
        pinned = (*pinned, eq(value, integer(high)))
        best[name] = high
    return best
