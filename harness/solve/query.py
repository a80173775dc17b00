"""One question to a solver and its answer, independent of which solver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kvproof.harness.solve.term import FALSE, Term, Value


class Outcome(StrEnum):
    """What a solver said. ``UNKNOWN`` is never taken for one of the others."""

    SAT = "sat"
    UNSAT = "unsat"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Query:
    """Are the premises satisfiable together with the negated goal?

    ``unsat`` proves that the goal follows from the premises; ``sat`` comes with a counterexample. With the
    goal ``FALSE`` the question is whether the premises alone are satisfiable.

    Attributes:
        premises: conditions taken to hold, in order.
        goal: the condition in question.
    """

    premises: tuple[Term, ...]
    goal: Term = FALSE


@dataclass(frozen=True)
class Answer:
    """What a solver answered.

    Attributes:
        outcome: sat, unsat or unknown.
        solver: name of the solver.
        model: value of each free variable that the text declares, of a sat answer.
        reason: why it is unknown.
        seconds: wall time.
        resources: the solver's own count of the work done, which does not depend on the machine's load.
    """

    outcome: Outcome
    solver: str
    model: Mapping[str, Value] = field(default_factory=dict[str, Value])
    reason: str = ""
    seconds: float = 0.0
    resources: int = 0


@dataclass(frozen=True)
class Budget:
    """How much one question may cost.

    Attributes:
        resources: the solver's resource units; the same question stops at the same point on every machine.
        seconds: wall-clock backstop, for work that a solver does not count. Long, so that a busy machine does not
            decide what is UNKNOWN.
        seed: random seed.
    """

    resources: int = 20_000_000
    seconds: float = 60.0
    seed: int = 0
