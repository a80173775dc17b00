"""Drawing a case while a worker still runs the one before it, so that neither waits for the other.

Hypothesis draws one case after the other and wants to know of each at once whether it fails. Here it is told that
a case holds before its outcome is there. Draws follow from the seed alone, so when that turns out to be wrong the
same chunk is drawn once more up to that case, which is then run again, alone and waited for, and shrunk as ever.
Cases before it are not run twice. One launch is on its way at a time, so whatever happens to the worker is that
case's doing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kvproof.harness.check.differential import CaseCheck

NOT_AGAIN = "not shrunk: the case was not drawn, or did not fail, a second time"


@dataclass(frozen=True)
class Drawn:
    """A case on its way.

    Attributes:
        check: it.
        chunk, number: where it was drawn: the chunk of hypothesis, and how many cases of that came before.
    """

    check: CaseCheck
    chunk: int
    number: int


@dataclass(frozen=True)
class Wanted:
    """A case that has failed and is to be drawn again.

    Attributes:
        chunk, number: where it was drawn.
        key: of the case.
        failure: what is known of it without that.
    """

    chunk: int
    number: int
    key: str
    failure: Any


class Late(BaseException):
    """A case that hypothesis was told to hold has failed. No ``Exception``: hypothesis must not catch it.

    Attributes:
        cases, events: of the case behind it, if that was run and holds.
    """

    def __init__(self, cases: int = 0, events: Iterable[str] = ()) -> None:
        self.cases, self.events = cases, tuple(events)
        super().__init__()


class Ahead:
    """What a trial keeps between one case and the next.

    Args:
        settle: waits for the last case and gives its events; raises :class:`Late`.

    Attributes:
        pending: the case on its way.
        wanted: failed cases to be drawn again, the first one first.
        redrawing: whether the chunk at hand is drawn for the first of them.
    """

    def __init__(self, settle: Callable[[], Iterable[str]]) -> None:
        self.settle = settle
        self.pending: Drawn | None = None
        self.wanted: list[Wanted] = []
        self.chunk, self.number = 0, 0

    @property
    def redrawing(self) -> bool:
        """Whether cases are drawn only to come to one that has failed."""
        return bool(self.wanted)

    def enter(self, chunk: int) -> None:
        """A chunk begins, perhaps once more."""
        self.chunk, self.number = chunk, 0

    def place(self) -> int:
        """How many cases of the chunk came before the one that is drawn now."""
        self.number += 1
        return self.number - 1

    def next(self, drawn: Drawn) -> Drawn | None:
        """Send a case, as soon as the one before has come back; gives that one."""
        before = self.pending
        if before is not None:
            before.check.collect()
        self.pending = None
        drawn.check.start()
        self.pending = drawn
        return before

    def last(self) -> Drawn | None:
        """The case on its way, come back."""
        before, self.pending = self.pending, None
        if before is not None:
            before.check.collect()
        return before
