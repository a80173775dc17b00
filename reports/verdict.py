"""A verdict is a value. Only PASS passes; the others are always counted and shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum


class Status(StrEnum):
    """What became of a check."""

    PASS = "PASS"  # noqa: S105  (not a password)
    FAIL = "FAIL"
    UNKNOWN = "UNKNOWN"
    UNSUPPORTED = "UNSUPPORTED"
    NOT_RUN = "NOT_RUN"


@dataclass(frozen=True)
class Verdict:
    """What a check found.

    Attributes:
        status: PASS, FAIL (there is a counterexample), UNKNOWN (undecided), UNSUPPORTED (something in the
            subject is outside what the check models) or NOT_RUN (a device or package is absent).
        reason: why it is not PASS; required for every other status.
        assumptions: under what a PASS holds.
        bounds: up to where a PASS holds ("32 drawn cases"); empty means unbounded.
    """

    status: Status
    reason: str = ""
    assumptions: tuple[str, ...] = ()
    bounds: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.status is not Status.PASS and not self.reason:
            raise ValueError(f"a verdict of {self.status} needs a reason")

    @property
    def passed(self) -> bool:
        """Whether the status is PASS."""
        return self.status is Status.PASS

    def __bool__(self) -> bool:
        # UNKNOWN is neither; truth testing would decide it silently.
        raise TypeError("a verdict has no truth value; ask .passed or compare .status")

    def under(self, *assumptions: str) -> Verdict:
        """The same verdict with further assumptions."""
        return replace(self, assumptions=(*self.assumptions, *assumptions))


_SEVERITY = (Status.FAIL, Status.UNKNOWN, Status.UNSUPPORTED, Status.PASS, Status.NOT_RUN)


def combine(verdicts: Iterable[Verdict]) -> Verdict:
    """One verdict for several: the worst status, with the reasons of all that have it.

    FAIL outweighs UNKNOWN outweighs UNSUPPORTED outweighs PASS. NOT_RUN remains only if nothing ran; of no
    verdicts at all nothing ran either.
    """
    items = list(verdicts)
    if not items:
        return Verdict(Status.NOT_RUN, "nothing was checked")
    worst = min((v.status for v in items), key=_SEVERITY.index)
    reasons = dict.fromkeys(v.reason for v in items if v.status is worst and v.reason)
    return Verdict(
        worst,
        "; ".join(reasons),
        tuple(dict.fromkeys(a for v in items for a in v.assumptions)),
        tuple(dict.fromkeys(b for v in items for b in v.bounds)),
    )


def exit_status(verdicts: Iterable[Verdict]) -> int:
    """Process exit status: 0 all PASS (NOT_RUN allowed beside), 1 a FAIL, 3 undecided, none failed."""
    counts = Counter(v.status for v in verdicts)
    if counts[Status.FAIL]:
        return 1
    if counts[Status.UNKNOWN] or counts[Status.UNSUPPORTED] or not counts[Status.PASS]:
        return 3
    return 0
