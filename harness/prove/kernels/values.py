"""What the symbolic evaluator computes with: terms for integers and conditions, pointers, and demands on both.

A machine integer is a mathematical integer with a demand that it fits its width. Demands are collected where
they arise and asked for only where a value is used: by an address, a mask or a branch, under what guards
that use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from kvproof.harness.ir.reader import Operation
from kvproof.harness.solve.term import TRUE, Term, and_, not_


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


class Choice(Pointer):
    """One of two pointers, into different tensors: an access through it is one of two accesses.

    What asks it for its tensor or its offset learns that it has no single one.

    Args:
        condition: under which it is the first.
        then, otherwise: the two, which count in the same unit.
        operation: what chooses.
    """

    def __init__(self, condition: Term, then: Pointer, otherwise: Pointer, operation: Operation) -> None:
        for name, value in (("condition", condition), ("then", then), ("otherwise", otherwise)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "unit", then.unit)
        object.__setattr__(self, "operation", operation)

    condition: Term
    then: Pointer
    otherwise: Pointer
    operation: Operation

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    @property
    def argument(self) -> str:  # type: ignore[override]  # a field of the class it is one of
        """None.

        Raises:
            Unmodelled: always.
        """
        raise Unmodelled("a choice between pointers into two tensors", self.operation)

    @property
    def offset(self) -> Term:  # type: ignore[override]  # as above
        """None.

        Raises:
            Unmodelled: always.
        """
        raise Unmodelled("a choice between pointers into two tensors", self.operation)

    def each(self, change: Callable[[Pointer], Pointer]) -> Choice:
        """The choice with both pointers changed."""
        return Choice(self.condition, change(self.then), change(self.otherwise), self.operation)


def ways(pointer: Pointer, under: Term = TRUE) -> Iterator[tuple[Term, Pointer]]:
    """The pointers that a pointer may be, each with the condition under which it is."""
    if isinstance(pointer, Choice):
        yield from ways(pointer.then, and_(under, pointer.condition))
        yield from ways(pointer.otherwise, and_(under, not_(pointer.condition)))
    else:
        yield under, pointer


Key = tuple[int, tuple[Term, ...], tuple[int, ...]]
"""A value at coordinates: (value number, coordinates, rounds of the unrolled loops around it)."""


@dataclass(frozen=True)
class Use:
    """One value used by another, under a guard: where the guard is false the used value does not matter."""

    key: Key
    guard: Term = TRUE
