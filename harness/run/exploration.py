"""Drawing cases with hypothesis until a budget is spent, and shrinking the first that fails.

Hypothesis runs in chunks, each from a seed of its own that follows from the run's seed alone, so a run is the
same at every start up to where its time ends. Its own deadlines, database and health checks are off: the
first case compiles a kernel, and what a run met is written to records, not to a hidden folder.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as hypothesis_seed
from hypothesis import strategies as st
from hypothesis.errors import Flaky, Unsatisfiable
from hypothesis.internal.conjecture import providers

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
    """Ends the run at once. With a payload, that is a failure which cannot be shrunk.

    No ``Exception``: hypothesis must neither catch nor shrink it.
    """

    def __init__(self, payload: Any = None) -> None:
        self.payload = payload
        super().__init__()


class Trial(Protocol):
    """One case: draws it, checks it and returns its events."""

    def __call__(self, data: st.DataObject, shrinking: Shrinking) -> Iterable[str]:
        """Raises :class:`Failed` (through ``shrinking.failed``), or :class:`Abandon`."""
        ...


@dataclass
class Shrinking:
    """Bounds shrinking in time: once it is over, only cases known to fail still do, so hypothesis settles.

    Attributes:
        stop: clock value at which shrinking ends; None before the first failure.
    """

    clock: Callable[[], float]
    seconds: float
    stop: float | None = None
    _known: dict[str, Any] = field(default_factory=dict[str, Any])

    def settled(self, key: str) -> bool:
        """Whether the case need not be run any more: time is over. Raises its failure if it is known to fail."""
        if self.stop is None or self.clock() < self.stop:
            return False
        if key in self._known:
            raise Failed(self._known[key])
        return True

    def failed(self, key: str, payload: Any) -> Failed:
        """Note that a case fails; raise what this returns."""
        if self.stop is None:
            self.stop = self.clock() + self.seconds
        self._known[key] = payload
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
    """

    cases: int
    events: Mapping[str, int]
    failure: Any
    note: str
    seconds: float


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
    shrinking = Shrinking(clock, shrink_seconds)
    events: Counter[str] = Counter()
    cases = 0
    last: Any = None

    def one(data: st.DataObject) -> None:
        nonlocal cases, last
        if shrinking.stop is None and (
            clock() - begun >= budget_seconds or cases == case_target or (enough and enough(cases, events))
        ):
            raise Abandon
        try:
            seen = set(trial(data, shrinking))
        except Failed as failed:
            if last is None:
                cases += 1
            last = failed.payload
            raise
        if shrinking.stop is None:
            cases += 1
            events.update(seen)
            if on_progress is not None:
                on_progress(cases, clock() - begun)

    failure, note, chunk = None, "", first_chunk
    while failure is None:
        before = cases
        try:
            _run_chunk(one, seed, chunk)
        except Failed as failed:
            failure = failed.payload
        except Abandon as abandoned:
            failure = abandoned.payload
            note = "not shrunk: the device was lost" if failure is not None else ""
            cases += failure is not None
            break
        except Flaky:
            failure, note = last, "the same case did not fail again; the outcome depends on timing"
        except Unsatisfiable:
            break
        if cases == before:
            break  # no further case exists
        chunk += 1
    return Exploration(cases, dict(events), failure, note, clock() - begun)


@contextmanager
def _same_draws_everywhere() -> Iterator[None]:
    """Within: hypothesis draws no constants out of the modules that happen to be imported.

    It likes to try numbers that stand in the source of local modules, so the cases of a seed would depend on what
    else the process has loaded. Older releases do not do that and have nothing to hold back.
    """
    names = [name for name in ("_get_local_constants", "CONSTANTS_CACHE") if hasattr(providers, name)]
    before = {name: getattr(providers, name) for name in names}
    held: dict[str, Any] = {}
    if len(names) == 2:
        nothing = type(before["_get_local_constants"]())()
        held = {"_get_local_constants": lambda: nothing, "CONSTANTS_CACHE": type(before["CONSTANTS_CACHE"])(1024)}
    for name, value in held.items():
        setattr(providers, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(providers, name, value)


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
    with warnings.catch_warnings(), _same_draws_everywhere():
        warnings.simplefilter("ignore")
        hypothesis_seed(seed * 1_000_003 + chunk)(test)()
