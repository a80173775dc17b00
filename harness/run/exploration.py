"""Drawing cases with hypothesis until a budget is spent, and shrinking the first that fails.

Hypothesis runs in chunks, each from a seed of its own that follows from the run's seed alone, so a run is the
same at every start up to where its time ends. Its own deadlines, database and health checks are off: the
first case compiles a kernel, and what a run met is written to records, not to a hidden folder.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as hypothesis_seed
from hypothesis import strategies as st
from hypothesis.errors import Flaky, HypothesisException, Unsatisfiable

from kvproof.harness.run.ahead import NOT_AGAIN, TOO_LATE, Ahead, Late
from kvproof.properties.strategies.draws import same_draws_everywhere

CHUNK = 100
"""Cases drawn by one run of hypothesis; each starts with the smallest case, so not too few."""

SHRINK_SECONDS = 60.0
"""Time for shrinking, beyond the budget: a finding is worth it."""

Progress = Callable[[int, float], None]
"""Called with (cases run, seconds gone)."""


class Failed(Exception):  # noqa: N818  (carries a failing case out of hypothesis)
    """A case failed.

    Attributes:
        payload: what is needed to describe and to repeat it.
    """

    def __init__(self, payload: Any) -> None:
        self.payload = payload
        super().__init__(str(payload))


class Abandon(BaseException):
    """Ends the run at once. Its failure is the payload; without one, the last that was met, if any.

    ``note`` says why it is not the smallest.
    No ``Exception``: hypothesis must neither catch nor shrink it.
    """

    def __init__(self, payload: Any = None, note: str = "not shrunk: the device was lost") -> None:
        self.payload, self.note = payload, note
        super().__init__()


class Trial(Protocol):
    """One case: draws it, checks it and returns its events.

    One with an attribute ``ahead``, an :class:`~kvproof.harness.run.ahead.Ahead` gives those of the case before.
    """

    def __call__(self, data: st.DataObject, shrinking: Shrinking) -> Iterable[str]:
        """Raises :class:`Failed` (through ``shrinking.failed``), or :class:`Abandon`."""
        ...


@dataclass
class Shrinking:
    """Bounds shrinking in time: once it is over, no further case is drawn, and the last one that failed is kept.

    Hypothesis tries nothing that is larger than what it has, so that is the smallest.

    Attributes:
        stop: clock value at which shrinking ends; None before the first failure.
    """

    clock: Callable[[], float]
    seconds: float
    stop: float | None = None

    @property
    def over(self) -> bool:
        """Whether its time has passed."""
        return self.stop is not None and self.clock() >= self.stop

    def failed(self, payload: Any) -> Failed:
        """Note that a case fails; raise what this returns."""
        if self.stop is None:
            self.stop = self.clock() + self.seconds
        return Failed(payload)


@dataclass(frozen=True)
class Exploration:
    """What a run met.

    Attributes:
        cases: cases run before the first failure, and that one.
        events: how many of them showed each event.
        failure: payload of the failing case, shrunk; None if none failed.
        note: what is unusual about the failure; empty if nothing is.
        seconds: wall time.
        shrink_seconds: of that, since the failure was met.
    """

    cases: int
    events: Mapping[str, int]
    failure: Any
    note: str
    seconds: float
    shrink_seconds: float = 0.0


def explore(
    trial: Trial,
    *,
    budget_seconds: float,
    seed: int,
    case_target: int | None = None,
    on_progress: Progress | None = None,
    enough: Callable[[int, Mapping[str, int]], bool] | None = None,
    first_chunk: int = 0,
    shrink_seconds: float = SHRINK_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> Exploration:
    """Run cases until one fails, the budget is spent, or enough have been run.

    Args:
        trial: draws and checks one case.
        budget_seconds: wall time for cases; shrinking comes on top.
        seed: seed of everything drawn.
        case_target: stop after so many cases.
        on_progress: told after each case.
        enough: called with (cases, events) after each case; ends the run when it says so.
        first_chunk: chunk to begin with. A run that goes on where another ended begins after that one's.
        shrink_seconds: time for shrinking.
        clock: seconds; for tests.
    """
    begun = clock()

    def over(cases: int, events: Mapping[str, int]) -> bool:
        return clock() - begun >= budget_seconds or cases == case_target or bool(enough and enough(cases, events))

    def progress(cases: int) -> None:
        if on_progress is not None:
            on_progress(cases, clock() - begun)

    run = _Run(trial, Shrinking(clock, shrink_seconds), over, progress)
    chunk = run.ahead.wanted[0].chunk if run.ahead and run.ahead.wanted else first_chunk
    while run.failure is None:
        before = run.cases
        going_on = run.chunk(seed, chunk)
        if not going_on or (run.cases == before and going_on is not AGAIN):
            break  # no further case exists
        chunk += going_on is not AGAIN
    if run.ahead is not None and run.failure is not None and run.ahead.wanted:
        run.ahead.wanted.pop(0)
    ended, met = clock(), run.met
    shrinking = 0.0 if met is None else ended - met
    return Exploration(run.cases, dict(run.events), run.failure, run.note, ended - begun, shrinking)


AGAIN = "again"
"""The same chunk is to be drawn once more."""
UNSTEADY = "the same case did not fail again; the outcome depends on timing"


class _Run:
    """What a run keeps from chunk to chunk.

    Args:
        trial: draws and checks one case.
        shrinking: bounds of shrinking.
        over: called with (cases, events) before a case: whether the run is to end.
        progress: told the number of cases after each.
    """

    def __init__(
        self,
        trial: Trial,
        shrinking: Shrinking,
        over: Callable[[int, Mapping[str, int]], bool],
        progress: Callable[[int], None],
    ) -> None:
        self.trial, self.shrinking, self.over, self.progress = trial, shrinking, over, progress
        self.ahead: Ahead | None = getattr(trial, "ahead", None)
        self.events: Counter[str] = Counter()
        self.cases = 0
        self.failure: Any = None
        self.note = ""
        self._last: Any = None
        self._broken: Exception | None = None
        self._over = self._late = False
        self.met: float | None = None  # when the failure was there, to be made smaller from then on

    def chunk(self, seed: int, chunk: int) -> bool | str:
        """Run a chunk; whether to go on with the next one, or :data:`AGAIN`."""
        redrawing = bool(self.ahead and self.ahead.redrawing)
        self.met = self.shrinking.clock() if redrawing else None
        try:
            return self._outcomes(seed, chunk, redrawing=redrawing)
        except Failed as failed:
            self.failure = failed.payload
        except Abandon as abandoned:
            self.failure = self._last if abandoned.payload is None else abandoned.payload
            self.note = abandoned.note if self.failure is not None else ""
            self.cases += self.failure is not None and not redrawing and self._last is None
        except Late as late:
            self.cases += late.cases
            self.events.update(late.events)
            return AGAIN
        except Flaky:
            if self._last is None:
                raise  # what is unsteady is the drawing: that is no end without a failure
            self.failure, self.note = self._last, "" if self._late else UNSTEADY
        except Unsatisfiable:
            pass
        return False

    def _outcomes(self, seed: int, chunk: int, *, redrawing: bool) -> bool:
        if self.ahead is not None:
            self.ahead.enter(chunk)
        try:
            _run_chunk(self._one, seed, chunk)
        except (Abandon, Flaky):
            if self._broken is not None and self._last is None:
                # Not a case has failed but what runs them, and not again: that is no end without a failure.
                raise self._broken from None
            # A case that ends before anything is drawn looks flaky to hypothesis.
            if not self._over:
                raise
        if self.ahead is not None:
            if redrawing:
                raise Abandon(self.ahead.wanted[0].failure, NOT_AGAIN)
            self.events.update(self.ahead.settle())
        return not self._over

    def _one(self, data: st.DataObject) -> None:
        counting = self.shrinking.stop is None and not (self.ahead and self.ahead.redrawing)
        if counting and self.over(self.cases, self.events):
            self._over = True
            raise Abandon
        if self.shrinking.over:
            self._late = True
            raise Abandon(None, "")
        if self.ahead and self.ahead.redrawing and self.shrinking.stop is None:
            self._redraw_in_time(self.ahead)
        try:
            seen = set(self.trial(data, self.shrinking))
        except Failed as failed:
            self.cases += counting and self._last is None
            self._last = failed.payload
            self.met = self.shrinking.clock() if self.met is None else self.met
            raise
        except HypothesisException:
            raise
        except Exception as error:
            self._broken = error
            raise
        if counting and self.shrinking.stop is None:
            self.cases += 1
            self.events.update(seen)
            self.progress(self.cases)

    def _redraw_in_time(self, ahead: Ahead) -> None:
        """A case that failed is drawn again for the sake of shrinking, so that may take no longer either."""
        if self.shrinking.clock() - (self.met or 0.0) > self.shrinking.seconds:
            raise Abandon(ahead.wanted[0].failure, TOO_LATE)


def _run_chunk(one: Callable[[st.DataObject], None], seed: int, chunk: int) -> None:
    test = settings(
        max_examples=CHUNK,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=cast("list[HealthCheck]", list(HealthCheck)),
        report_multiple_bugs=False,
        print_blob=False,
        verbosity=Verbosity.quiet,
    )(given(st.data())(one))
    # Chunks of different runs must not share seeds: a run with the next seed would repeat this one's cases.
    with warnings.catch_warnings(), same_draws_everywhere():
        warnings.simplefilter("ignore")
        hypothesis_seed(seed * 1_000_003 + chunk)(test)()
