"""Times as machines give them while nothing changes: one function a shape, drawn from a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator


def normal(rng: Rng, count: int) -> Floats:
    """A quiet GPU: half a percent, symmetric."""
    return 1 + 0.005 * rng.standard_normal(count)


def skewed(rng: Rng, count: int) -> Floats:
    """Never faster than some floor, often slower."""
    return 1 + 0.02 * rng.lognormal(0, 0.8, count)


def heavy(rng: Rng, count: int) -> Floats:
    """Student's t with two degrees of freedom, and one sample in fifty up to ten times as long."""
    times = 1 + 0.01 * np.abs(rng.standard_t(2, count))
    return np.where(rng.random(count) < 0.02, times * rng.uniform(1.5, 10, count), times)


def drifting(rng: Rng, count: int) -> Floats:
    """A machine that warms up by 5 % and wanders."""
    wander = np.cumsum(rng.standard_normal(count)) * 0.05 / np.sqrt(count)
    return 1 + 0.05 * np.linspace(0, 1, count) + wander + 0.003 * rng.standard_normal(count)


def bimodal(rng: Rng, count: int) -> Floats:
    """Two modes 8 % apart, each kept for some tens of samples."""
    mode = np.cumsum(rng.random(count) < 0.03) % 2
    return 1 + 0.08 * mode + 0.004 * rng.standard_normal(count)


def correlated(rng: Rng, count: int) -> Floats:
    """Each sample nine tenths of the last one's deviation."""
    shocks = 0.01 * rng.standard_normal(count)
    values = np.empty(count)
    state = float(rng.standard_normal()) * 0.02
    for i in range(count):
        state = 0.9 * state + shocks[i]
        values[i] = state
    return 1 + values


def quantised(rng: Rng, count: int) -> Floats:
    """A coarse timer: most samples are equal."""
    return np.round((1 + 0.004 * rng.standard_normal(count)) * 100) / 100


def bursts(rng: Rng, count: int) -> Floats:
    """Another process takes the core for a while, several times."""
    times = 1 + 0.01 * rng.lognormal(0, 0.5, count)
    for begin in rng.integers(0, count, 4):
        times[begin : begin + int(rng.integers(3, 30))] *= rng.uniform(1.2, 2.5)
    return times


def everything(rng: Rng, count: int) -> Floats:
    """Drift, modes, correlation, skew and bursts together."""
    return drifting(rng, count) * bimodal(rng, count) * bursts(rng, count) * correlated(rng, count)


SHAPES: Mapping[str, Callable[[Rng, int], Floats]] = {
    shape.__name__: shape
    for shape in (normal, skewed, heavy, drifting, bimodal, correlated, quantised, bursts, everything)
}


def shape_of(samples: Any) -> dict[str, float]:
    """What real samples look like: spread, skewness, tail, correlation with the one before.

    Of the samples over their median: distance of the quartiles; mean minus median over it; the share further than
    five of it from the median; the correlation of ranks with the sample before.
    """
    values = np.asarray(samples, np.float64) / np.median(samples)
    low, high = np.quantile(values, [0.25, 0.75])
    spread = float(high - low) or 1e-9
    ranks = np.argsort(np.argsort(values)).astype(np.float64)
    before, after = ranks[:-1] - ranks.mean(), ranks[1:] - ranks.mean()
    return {
        "quartiles": spread,
        "skew": float(np.mean(values) - 1) / spread,
        "tail": float(np.mean(np.abs(values - 1) > 5 * spread)),
        "correlation": float(np.mean(before * after) / (np.var(ranks) or 1.0)),
    }
