"""The exact signed-rank test of paired differences, ties and zeros included, and the interval that it implies.

Under the null hypothesis the sign of each difference is a fair coin: which side of a pair ran first was drawn.
So the p-value is exact whatever the noise is (skewed, heavy-tailed, drifting, correlated, bimodal): it counts
the assignments of signs that are at least as extreme. SciPy's exact form refuses ties, which timers make often.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
LARGEST = 400
"""Differences at most; the table of the null distribution grows with their square."""


def p_value(differences: Floats) -> float:
    """Two-sided p-value of "the differences are as likely positive as negative". 1 if all are zero.

    Raises:
        ValueError: more than :data:`LARGEST` differences, or one that is not finite.
    """
    values = _checked(differences)
    values = values[values != 0.0]
    if not values.size:
        return 1.0
    ranks = _doubled_ranks(np.abs(values))
    total = int(ranks.sum())
    positive = int(ranks[values > 0].sum())
    counts = _null(tuple(sorted(ranks.tolist())))
    extreme = max(positive, total - positive)
    return min(1.0, 2.0 * float(counts[extreme:].sum()))


def interval(differences: Floats, confidence: float = 0.99) -> tuple[float, float, float]:
    """(estimate, low, high) of the centre of the differences: the median of all pairwise means, with the interval
    of the centres that the test does not reject at this confidence.

    Too few differences for the confidence give an unbounded interval.
    """
    values = _checked(differences)
    if not values.size:
        raise ValueError("differences must not be empty")
    first, second = np.triu_indices(values.size)
    means = np.sort((values[first] + values[second]) / 2.0)
    tail = np.cumsum(_null(tuple(range(2, 2 * values.size + 1, 2))))
    # The largest number of pairwise means that may be cut from each end. Doubled sums are even.
    cut = int(np.searchsorted(tail[::2], (1.0 - confidence) / 2.0, side="right"))
    if cut < 1:
        return float(np.median(means)), -np.inf, np.inf
    return float(np.median(means)), float(means[cut - 1]), float(means[-cut])


def _checked(differences: Floats) -> Floats:
    values = np.asarray(differences, np.float64)
    if values.ndim != 1 or values.size > LARGEST:
        raise ValueError(f"differences must be at most {LARGEST} numbers, got shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("differences must be finite; one is not")
    return values


def _doubled_ranks(sizes: Floats) -> npt.NDArray[np.int64]:
    """Twice the rank of each size, equal sizes sharing the mean of theirs; doubled, they are integers."""
    _, place, count = np.unique(sizes, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (2 * last - count + 1)[place].astype(np.int64)


@functools.lru_cache(maxsize=4096)
def _null(ranks: tuple[int, ...]) -> Floats:
    """Probability of each sum of the ranks whose sign is positive, signs being fair coins."""
    probabilities = np.zeros(sum(ranks) + 1)
    probabilities[0] = 1.0
    reached = 0
    for rank in ranks:
        moved = probabilities[: reached + 1].copy()
        probabilities[: reached + 1] *= 0.5
        probabilities[rank : rank + reached + 1] += 0.5 * moved
        reached += rank
    return probabilities
