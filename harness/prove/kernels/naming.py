"""A contract's access at symbolic indices: what it says of them, and which cell they name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kvproof.harness.prove.kernels.arguments import Formula
from kvproof.harness.prove.kernels.questions import Questions
from kvproof.harness.prove.kernels.views import View
from kvproof.harness.solve.query import Outcome
from kvproof.harness.solve.term import Term, and_, integer, le, lt, variable
from kvproof.harness.symbolic.values import condition_term, index_term, simplest
from kvproof.models.contract import Access as Declared


@dataclass(frozen=True)
class Named:
    """A contract's access at some indices.

    Attributes:
        declared: the access.
        indices: a term for each of its indices.
        holds: the indices are in range, and the element is live.
        cell: its leading coordinates.
    """

    declared: Declared
    indices: tuple[Term, ...]
    holds: Term
    cell: tuple[Term, ...]


def named(questions: Questions, declared: Declared, indices: Sequence[Term]) -> Named:
    """The contract's access at these indices.

    Raises:
        UnsupportedError: the contract cannot be evaluated on symbolic values.
    """
    known = questions.setting.names
    key = (id(declared), tuple(indices))
    if key not in known:
        known[key] = _named(questions, declared, indices)
    return known[key]


def _named(questions: Questions, declared: Declared, indices: Sequence[Term]) -> Named:
    a: Any = questions.setting.arguments
    values = [simplest(i) for i in indices]
    conditions: list[Term] = []
    with Formula().active():
        for place, index in enumerate(declared.over):
            low, stop = (index_term(b(a, *values[:place])) for b in (index.low, index.stop))
            conditions += [le(low, indices[place]), lt(indices[place], stop)]
        conditions.append(condition_term(declared.when(a, *values)))
        cell = tuple(index_term(part) for part in declared.cell(a, *values))
    return Named(declared, tuple(indices), and_(*conditions), cell)


def whole(questions: Questions, declared: Declared, view: View) -> Named | None:
    """The contract's access, if it is to every cell of a view: then being in bounds is all that is asked."""
    if declared.mode == "must" or not (view.same and view.contiguous):
        return None
    fresh = [variable(f"name {number}") for number in range(len(declared.over))]
    name = named(questions, declared, fresh)
    if name.cell != name.indices:
        return None
    ranges = [c for i, extent in zip(fresh, view.shape, strict=False) for c in (le(integer(0), i), lt(i, extent))]
    return name if questions.ask(ranges, name.holds).outcome is Outcome.UNSAT else None
