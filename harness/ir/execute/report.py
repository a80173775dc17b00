"""What an execution has to say beside its results."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kvproof.harness.ir.reader import Location


class Kind(StrEnum):
    """What was seen."""

    OUT_OF_BOUNDS = "out of bounds"
    MISALIGNED = "misaligned"
    NEVER_WRITTEN = "read of never-written memory"
    COLLISION = "write collision"
    RACE = "read of another program's write"
    ASSERTION = "assertion"
    ENDLESS = "does not end"
    WRAP = "wrap"
    SENTINEL = "negative value divided"


@dataclass(frozen=True)
class Report:
    """One thing seen, with the first place where it was.

    Attributes:
        kind: what.
        words: one sentence with numbers.
        location: the operation.
        other: the second operation of a collision.
        buffer: name of the tensor, empty if no tensor is concerned.
        element: storage element of the tensor (in the tensor's element size) where it was seen.
        programs: ids (x, y, z) of the program, or of both programs, concerned.
        count: how many lanes showed it.
        same_value: of a collision, whether all writers of the cell wrote the same value.
    """

    kind: Kind
    words: str
    location: Location
    other: Location | None = None
    buffer: str = ""
    element: int = 0
    programs: tuple[tuple[int, int, int], ...] = ((0, 0, 0),)
    count: int = 1
    same_value: bool = False

    def __str__(self) -> str:
        at = f"{self.location}" if self.other is None else f"{self.location} and {self.other}"
        more = f" ({self.count} lanes)" if self.count > 1 else ""
        return f"{self.kind}: {self.words}, program {self.program}{more}, at {at}"

    @property
    def program(self) -> tuple[int, int, int]:
        """Ids of the (first) program."""
        return self.programs[0]
