"""What the symbolic evaluator computes with: terms for integers and conditions, pointers, and demands on both.

A machine integer is a mathematical integer with a demand that it fits its width. Demands are collected where
they arise and asked for only where a value is used: by an address, a mask or a branch, under what guards
that use.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kvproof.harness.ir.reader import Operation
from kvproof.harness.solve.term import TRUE, Term


class Unmodelled(Exception):  # noqa: N818  (a verdict, not a mistake)
    """Something depends on an operation that the checker does not model.

    Attributes:
        operation: the operation; None if something else is the reason.
    """

    def __init__(self, words: str, operation: Operation | None = None) -> None:
        where = f" at {operation.location}" if operation is not None else ""
        super().__init__(f"{words}{where}")
        self.operation = operation


class DemandKind(StrEnum):
    """Why a demand is made."""

    FITS = "no wrap"
    EXACT = "exact in floating point"
    DIVISOR = "divisor not zero"
    NOT_NEGATIVE = "no sentinel"


@dataclass(frozen=True)
class Demand:
    """A condition that must hold for an operation's result to be what the terms say.

    Attributes:
        kind: why.
        holds: the condition.
        operation: the operation.
        value: the value concerned, for messages.
    """

    kind: DemandKind
    holds: Term
    operation: Operation
    value: Term


@dataclass(frozen=True)
class Pointer:
    """A pointer: so many times ``unit`` bytes from the start of a pointer argument."""

    argument: str
    offset: Term
    unit: int


Key = tuple[int, tuple[Term, ...], tuple[int, ...]]
"""A value at coordinates: (value number, coordinates, rounds of the unrolled loops around it)."""


@dataclass(frozen=True)
class Use:
    """One value used by another, under a guard: where the guard is false the used value does not matter."""

    key: Key
    guard: Term = TRUE
