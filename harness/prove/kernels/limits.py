"""Up to which size no operation wraps: the largest extent for which a demand that fails in general holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvproof.harness.prove.kernels.launch import Quantity
from kvproof.harness.prove.kernels.properties import Found
from kvproof.harness.prove.kernels.questions import Questions
from kvproof.harness.solve.query import Outcome
from kvproof.harness.solve.term import Term, eq, free_variables, integer, le

WHOLE_RANGE = 2**31 - 2**20
"""A limit from here on is the index type's own: 32-bit indices reach no further than 2**31 - 1."""


@dataclass(frozen=True)
class Limit:
    """A size up to which a demand holds.

    Attributes:
        quantity: what is limited.
        most: its largest value for which nothing wraps; with dense rows, where strides are free.
        words: the first operation that goes wrong beyond, with its place.
        dense: the limit counts on dense rows: with rows further apart it is lower.
    """

    quantity: str
    most: int
    words: str
    dense: bool = False

    @property
    def is_whole_range(self) -> bool:
        """Whether the limit is no tighter than 32-bit indices are by themselves."""
        return self.most >= WHOLE_RANGE and not self.dense

    def __str__(self) -> str:
        rows = " with dense rows" if self.dense else ""
        return f"safe up to {self.quantity} = {self.most:,}{rows}; beyond, {self.words}"


def limit_of(questions: Questions, found: Found, like: Limit | None = None) -> Limit | None:
    """The limit of a failed demand; None if no single quantity limits it.

    Args:
        questions: the launch.
        found: the failed demand.
        like: the limit of the same operation under other conditions: if it holds here too, it is this one's.
    """
    given, goal = list(found.given), found.goal
    about = {v for t in questions.premises([*given, goal]) for v in free_variables(t)}
    about |= {v for t in (*given, goal) for v in free_variables(t)}
    quantities = [q for q in questions.setting.quantities if q.term in about]
    strides = [q for q in quantities if q.name.endswith(".stride")]
    # Counted with rows next to each other, which is what a plane's size means.
    dense = [eq(q.term, integer(q.dense)) for q in strides if q.dense is not None]

    def least_bad(quantity: Quantity, most: int, rows: Sequence[Term] = dense) -> int | None:
        """None if all is well up to a size; else a size, no larger, at which it is not."""
        bound = le(quantity.term, integer(most))
        answer = questions.ask([*given, *rows, bound], goal)
        if answer.outcome is Outcome.UNSAT:
            return None
        return min(int(answer.model.get(quantity.term.payload, most)), most)

    def holds(quantity: Quantity, most: int, rows: Sequence[Term] = dense) -> bool:
        return least_bad(quantity, most, rows) is None

    if like is not None and not like.dense:
        same = next((q for q in quantities if q.name == like.quantity), None)
        if same is not None and holds(same, like.most, []):
            return like
    for quantity in sorted((q for q in quantities if q not in strides), key=lambda q: _order(questions, q)):
        low, high = quantity.range
        least = max(low or 0, 1)
        if high is None or least >= high or not holds(quantity, least):
            continue
        good, bad = least, high + 1
        if good < WHOLE_RANGE < bad:
            # Most limits are the index type's own.
            good, bad = (WHOLE_RANGE, bad) if holds(quantity, WHOLE_RANGE) else (good, WHOLE_RANGE)
        nearly = False
        while bad - good > 1:
            # A counterexample is often the least there is, which the size before it shows.
            middle = bad - 1 if nearly else (good + bad) // 2
            wrong = least_bad(quantity, middle)
            nearly = wrong is not None and not nearly
            good, bad = (middle, bad) if wrong is None else (good, max(wrong, good + 1))
        counts = bool(dense) and not holds(quantity, good, [])
        return Limit(quantity.name, good, f"{found.words.split(':')[0]} fails in {found.location}", counts)
    return None


def _order(questions: Questions, quantity: Quantity) -> int:
    """Extents of what is written first: planes; then those of other tensors, then scalars."""
    tensors = questions.setting.contract.tensors
    if any(t.role != "in" and quantity.name in t.shape[:1] for t in tensors):
        return 0
    if any(quantity.name in t.shape and len(t.shape) > 1 for t in tensors):
        return 1
    return 2 if any(quantity.name in t.shape for t in tensors) else 3
