"""Drawing a case while a worker still runs the one before it, so that neither waits for the other.

Hypothesis draws one case after the other and wants to know of each at once whether it fails. Here it is told that
a case holds before its outcome is there. Draws follow from the seed alone, so when that turns out to be wrong the
same chunk is drawn once more up to that case, which is then run again, alone and waited for, and shrunk as ever.
Cases before it are not run twice. Two launches are on their way at most, and a worker does them in order, so what
it dies of is the first that has not come back; the other is sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kvproof.harness.check.differential import CaseCheck

AT_ONCE = 2
"""Cases on their way: one runs, one waits, so that a worker has always something to do."""

NOT_AGAIN = "not shrunk: the case was not drawn, or did not fail, a second time"
TOO_LATE = "not shrunk: the time for that was over before the case was drawn a second time"


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
        cases, events: of the cases behind it, as far as they are not counted yet.
    """

    def __init__(self, cases: int = 0, events: Iterable[str] = ()) -> None:
        self.cases, self.events = cases, tuple(events)
        super().__init__()


class Ahead:
    """What a trial keeps between one case and the next.

    Args:
        settle: waits for the last case and gives its events; raises :class:`Late`.

    Attributes:
        pending: cases on their way.
        wanted: failed cases to be drawn again, the first one first.
        redrawing: whether the chunk at hand is drawn for the first of them.
        back: what came back when the last case was to be sent, which may have failed.
    """

    def __init__(self, settle: Callable[[], Iterable[str]]) -> None:
        self.settle = settle
        self.pending: list[Drawn] = []
        self.wanted: list[Wanted] = []
        self.chunk, self.number = 0, 0
        self.back: Drawn | None = None

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
        """Send a case, as soon as there is room; gives one that has come back."""
        self.back = self.last() if len(self.pending) == AT_ONCE else None
        drawn.check.start()
        self.pending.append(drawn)
        return self.back

    def last(self) -> Drawn | None:
        """The first case on its way, come back."""
        if not self.pending:
            return None
        self.pending[0].check.collect()
        return self.pending.pop(0)
