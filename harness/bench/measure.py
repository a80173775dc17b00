"""Samples of something that takes time: warm-up, batches, a stopping rule, and interleaved comparisons.

Everything measured is a *sampler*: called with a number, it returns that many times in microseconds. Raw samples
are kept; whoever reads them chooses the summary.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from kvproof.harness.bench.clocks import Reading

Sampler = Callable[[int], list[float]]
"""Returns so many times, in microseconds."""

Clock = Callable[[], Reading]


@runtime_checkable
class Renewable(Protocol):
    """A sampler that can begin afresh: what it holds may have been placed well or badly."""

    def renew(self) -> None:
        """Begin afresh."""
        ...

    def __call__(self, count: int, /) -> list[float]:
        """So many times, in microseconds."""
        ...


def no_clock() -> Reading:
    """What is read beside a batch where there is nothing to read."""
    return Reading()


@dataclass(frozen=True)
class Plan:
    """How long to measure.

    Attributes:
        batch: samples of a batch; one reading of clock and temperature stands beside each.
        fewest, most: batches, or pairs of batches of a comparison.
        spread: half width of the median's 99 % interval, as a share of the median, at which measuring stops.
        seconds: measuring stops after so long, however wide the spread is.
        warm: samples thrown away first.
    """

    batch: int = 10
    fewest: int = 4
    most: int = 40
    spread: float = 0.005
    seconds: float = 5.0
    warm: int = 5


@dataclass(frozen=True)
class Batch:
    """Samples taken in one go, in microseconds, and what the device's clock and temperature were right after."""

    samples: tuple[float, ...]
    reading: Reading = field(default_factory=Reading)


@dataclass(frozen=True)
class Measured:
    """One series' raw samples.

    Attributes:
        batches: in the order in which they were taken.
        settled: whether the spread was reached; if not, the budget ended first.
    """

    batches: tuple[Batch, ...]
    settled: bool

    @property
    def samples(self) -> list[float]:
        """All samples, in order."""
        return [sample for batch in self.batches for sample in batch.samples]


@dataclass(frozen=True)
class Paired:
    """Two sides, measured in turn.

    Attributes:
        old, new: batches of each side; the n-th of both were taken one after the other.
        new_first: of each pair, whether the new side ran first. Drawn, which is what makes the test exact.
    """

    old: tuple[Batch, ...]
    new: tuple[Batch, ...]
    new_first: tuple[bool, ...]


def half_width(samples: Sequence[float]) -> float:
    """Half width of the median's distribution-free 99 % interval, as a share of the median."""
    ordered = np.sort(np.asarray(samples, np.float64))
    count = ordered.size
    # Ranks of the interval: count / 2 -+ 2.576 standard deviations of a fair coin's successes.
    reach = 2.576 * math.sqrt(count) / 2
    low, high = math.floor(count / 2 - reach), math.ceil(count / 2 + reach)
    if low < 0 or high >= count:
        return math.inf
    return float((ordered[high] - ordered[low]) / 2 / np.median(ordered))


def measure(sampler: Sampler, plan: Plan = Plan(), clock: Clock = no_clock) -> Measured:
    """Samples until their median is known well enough, or the plan's budget ends."""
    sampler(plan.warm)
    begun = time.monotonic()
    batches: list[Batch] = []
    samples: list[float] = []
    while len(batches) < plan.most:
        batches.append(Batch(tuple(sampler(plan.batch)), clock()))
        samples += batches[-1].samples
        if len(batches) >= plan.fewest and half_width(samples) <= plan.spread:
            return Measured(tuple(batches), settled=True)
        if time.monotonic() - begun > plan.seconds:
            break
    return Measured(tuple(batches), settled=False)


def interleave(old: Sampler, new: Sampler, seed: int, plan: Plan = Plan(), clock: Clock = no_clock) -> Paired:
    """Pairs of batches of both sides. Which side of a pair runs first is drawn.

    If both sides are the same, what is measured does not depend on the draw, whatever drifts, spikes or modes
    the machine has; so a test that counts draws is exact. For the same reason it stops by the sizes of the
    differences, which the draw cannot change, and never by their signs.

    What a side keeps for long (a graph's place in memory) must not stay the same either: a sampler with a method
    ``renew`` is renewed before each of its batches, in the drawn order. Both sides should read the same inputs.

    Args:
        old, new: the sides.
        seed: of the draw.
    """
    draw = random.Random(seed)  # noqa: S311  (no secret)
    old(plan.warm)
    new(plan.warm)
    begun = time.monotonic()
    pairs: list[tuple[Batch, Batch, bool]] = []
    while len(pairs) < plan.most:
        new_first = draw.random() < 0.5
        taken: dict[bool, Batch] = {}
        for is_new in (new_first, not new_first):
            side = new if is_new else old
            if isinstance(side, Renewable):
                side.renew()
            taken[is_new] = Batch(tuple(side(plan.batch)), clock())
        pairs.append((taken[False], taken[True], new_first))
        enough = len(pairs) >= plan.fewest and _size(pairs) <= plan.spread
        if enough or time.monotonic() - begun > plan.seconds:
            break
    return Paired(tuple(p[0] for p in pairs), tuple(p[1] for p in pairs), tuple(p[2] for p in pairs))


def _size(pairs: Sequence[tuple[Batch, Batch, bool]]) -> float:
    """How far off the differences' centre can be: 2.6 of their typical sizes over the root of their number."""
    sizes = [abs(math.log(np.median(new.samples) / np.median(old.samples))) for old, new, _ in pairs]
    return 2.576 * 1.4826 * float(np.median(sizes)) / math.sqrt(len(sizes))


class CallSampler:
    """Times a call on the host.

    Args:
        call: what is timed.
        shortest: microseconds that a sample takes at least; a shorter call is repeated within a sample.
        repeats: how often it is repeated; None to find out. Both sides of a comparison must repeat as often, or
            what the first repetition pays is another share of each.
    """

    def __init__(self, call: Callable[[], object], shortest: float = 200.0, repeats: int | None = None) -> None:
        self._call = call
        call()
        begun = time.perf_counter_ns()
        call()
        once = max((time.perf_counter_ns() - begun) / 1000.0, 0.05)
        self.repeats = repeats or max(1, math.ceil(shortest / once))

    def __call__(self, count: int) -> list[float]:
        """So many times, in microseconds a call."""
        found: list[float] = []
        call, repeats = self._call, range(self.repeats)
        for _ in range(count):
            begun = time.perf_counter_ns()
            for _ in repeats:
                call()
            found.append((time.perf_counter_ns() - begun) / 1000.0 / self.repeats)
        return found
