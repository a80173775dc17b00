"""When did a series change? Steps in its history, found by optimal segmentation and then held to two questions.

`ruptures` proposes the steps (exact optimum of squared error plus a price a step, in compiled code). Each is kept
only if it is significant (ranks of the runs before and after it, so that neither outliers nor skew decide; noise
that wanders costs more) and relevant (larger than what anybody cares about, and a better account of what happened
than a line: a drift is no step). A change of machine, driver or library ends one segment and begins another, and
is never a step.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

SHORTEST = 4
"""Runs between two steps, at least; so a step is reported this many runs after it happened."""

ALPHA = 0.005
PRICE = 5.0
"""Price of a step, in noise variances times the logarithm of the number of runs."""

LAG = 5
"""Runs apart from which wandering noise has mostly forgotten where it was."""


@dataclass(frozen=True)
class Step:
    """A change of a series.

    Attributes:
        index: first run after it.
        before, after: levels, as medians of the runs on each side up to the next step.
        p: of the ranks of both sides; 0 where the numbers are exact.
    """

    index: int
    before: float
    after: float
    p: float = 0.0

    @property
    def ratio(self) -> float:
        """After over before, minus one; infinite if there was nothing before."""
        if self.before == self.after:
            return 0.0
        return self.after / self.before - 1 if self.before else float("inf")


def exact_steps(values: Sequence[float]) -> list[Step]:
    """Steps of a series without noise: wherever it differs from the run before."""
    return [
        Step(i, float(values[i - 1]), float(values[i]))
        for i in range(1, len(values))
        if values[i] != values[i - 1]
    ]


def steps(values: Sequence[float], segments: Sequence[str] | None = None, relevance: float = 0.01) -> list[Step]:
    """Steps of a noisy series.

    Args:
        values: above zero, oldest first.
        segments: of each run, what it was measured with; runs of different segments do not compare.
        relevance: smallest step that anybody cares about, as a share.

    Raises:
        ValueError: a value that is not above zero.
    """
    if any(not value > 0 for value in values):
        raise ValueError("values must be above zero")
    names = list(segments) if segments is not None else [""] * len(values)
    data = np.asarray(values, np.float64)
    found: list[Step] = []
    begin = 0
    for end in range(1, len(names) + 1):
        if end == len(names) or names[end] != names[begin]:
            found += _steps_of(data[begin:end], begin, relevance)
            begin = end
    return found


def _steps_of(values: Floats, offset: int, relevance: float) -> list[Step]:
    if values.size < 2 * SHORTEST:
        return []
    logs = np.log(values)
    smooth = without_outliers(logs, noise_of(logs))
    noise = max(wandering_noise(smooth), 1e-6)
    ends = _proposed(smooth, noise)
    while True:
        bounds = [0, *ends, values.size]
        sides = [(bounds[i - 1], bounds[i], bounds[i + 1]) for i in range(1, len(bounds) - 1)]
        judged = [_judge(logs, smooth, side, noise, relevance) for side in sides]
        weak = [place for place, (kept, _) in enumerate(judged) if not kept]
        if not weak:
            break
        # The least certain one goes first: without it, the sides of its neighbours grow.
        del ends[max(weak, key=lambda place: judged[place][1])]
    levels = [float(np.exp(np.median(logs[a:b]))) for a, b in itertools.pairwise(bounds)]
    return [
        Step(offset + end, levels[place], levels[place + 1], judged[place][1]) for place, end in enumerate(ends)
    ]


def _judge(
    logs: Floats, smooth: Floats, side: tuple[int, int, int], noise: float, relevance: float
) -> tuple[bool, float]:
    """(kept, p) of a proposed step between two others."""
    from scipy import stats  # pyright: ignore[reportMissingTypeStubs]  # noqa: PLC0415  (slow to import)

    begin, at, end = side
    before, after = logs[begin:at], logs[at:end]
    test = cast("Any", stats).mannwhitneyu(before, after, alternative="two-sided", method="auto")
    size = abs(float(np.median(after) - np.median(before)))
    error = noise * float(np.sqrt(1 / before.size + 1 / after.size))
    kept = test.pvalue <= ALPHA and size >= max(3 * error, float(np.log1p(relevance)))
    return bool(kept and _beats_a_line(smooth[begin:end], at - begin)), float(test.pvalue)


def _beats_a_line(values: Floats, at: int) -> bool:
    """Whether two levels account for the values better than a straight line does."""
    levels = np.concatenate([np.full(part.size, part.mean()) for part in (values[:at], values[at:])])
    runs = np.arange(values.size) - (values.size - 1) / 2
    line = values.mean() + runs * float(runs @ values) / float(runs @ runs)
    return float(np.sum((values - levels) ** 2)) < float(np.sum((values - line) ** 2))


def noise_of(logs: Floats, lag: int = 1) -> float:
    """Standard deviation of a series around its level, from runs that are some apart: steps move few of those."""
    if logs.size < lag + 2:
        return 0.0
    return float(1.4826 * np.median(np.abs(logs[lag:] - logs[:-lag])) / np.sqrt(2))


def wandering_noise(logs: Floats) -> float:
    """The same for levels of many runs: noise that keeps its direction for some runs averages out more slowly."""
    near, far = noise_of(logs), noise_of(logs, LAG)
    if far <= near:
        return near
    # Neighbours of an autoregressive series differ by the factor sqrt(1 - kept) less than distant runs do.
    kept = min(1 - (near / far) ** 2, 0.9)
    return far * float(np.sqrt((1 + kept) / (1 - kept)))


def without_outliers(logs: Floats, noise: float) -> Floats:
    """The series with each lone run that is far from its four neighbours put to their median."""
    padded = np.pad(logs, 2, mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 5)
    middle = np.median(windows, axis=1)
    spread = 1.4826 * np.median(np.abs(windows - middle[:, None]), axis=1)
    return np.where(np.abs(logs - middle) > 4 * np.maximum(spread, noise), middle, logs)


def _proposed(smooth: Floats, noise: float) -> list[int]:
    """Where an optimal segmentation has its steps."""
    import ruptures  # pyright: ignore[reportMissingTypeStubs]  # noqa: PLC0415  (slow to import)

    detector = cast("Any", ruptures).KernelCPD(kernel="linear", min_size=SHORTEST)
    price = PRICE * noise**2 * float(np.log(smooth.size))
    return [int(end) for end in detector.fit(smooth.reshape(-1, 1)).predict(pen=price)[:-1]]
