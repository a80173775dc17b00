"""Is this run slower than its baseline? Verdicts of interleaved comparisons.

Two questions are kept apart. *Significant*: could the order in which the two sides happened to run explain the
difference? *Relevant*: is it large enough that anybody cares? A verdict needs both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

import numpy as np
import numpy.typing as npt

from kvproof.reports.verdicts.signed_rank import LARGEST, interval, p_value

Floats = npt.NDArray[np.float64]


class Change(StrEnum):
    """What became of a series between two versions."""

    SAME = "SAME"
    SLOWER = "SLOWER"
    FASTER = "FASTER"
    AMBIGUOUS = "AMBIGUOUS"


@dataclass(frozen=True)
class Limits:
    """When a difference counts.

    Attributes:
        alpha: chance of a false alarm that one comparison may have at most.
        family: expected share of false alarms among the alarms of one run (Benjamini and Hochberg); with no true
            difference at all it is the chance that the run raises any.
        relevance: smallest difference that anybody cares about, as a share (0.01 is 1 %).
        confidence: of the interval that is shown.
    """

    alpha: float = 0.001
    family: float = 0.01
    relevance: float = 0.01
    confidence: float = 0.99


def least_p(pairs: int) -> float:
    """Smallest p-value that so many pairs can give: all signs alike, two-sided."""
    return min(1.0, 2.0 ** (1 - pairs))


def most_series(pairs: int, limits: Limits = Limits()) -> int:
    """Series among which a single one that changed can be significant, with so many pairs; 0 if none can."""
    least = least_p(pairs)
    # The correction multiplies the smallest p-value by the number of series.
    return 0 if least > limits.alpha else math.floor(limits.family / least)


def fewest_pairs(series: int, limits: Limits = Limits()) -> int:
    """Pairs with which one of so many series can be significant, whatever the others do; those of one for none.

    Where not even the most that the test takes are enough, it is one more than those.
    """
    enough = (pairs for pairs in range(1, LARGEST + 1) if most_series(pairs, limits) >= max(series, 1))
    return next(enough, LARGEST + 1)


@dataclass(frozen=True)
class Comparison:
    """One series on two sides.

    Attributes:
        change: the verdict.
        ratio: new over old, minus one (0.03 is 3 % slower).
        low, high: interval of the ratio.
        p: exact p-value; ``adjusted`` is it after the other comparisons of the same run.
        significant, relevant: the two questions, answered separately.
        blocks: pairs of batches that it rests on.
        floor: what a difference had to exceed to be relevant.
    """

    change: Change
    ratio: float
    low: float
    high: float
    p: float
    adjusted: float
    significant: bool
    relevant: bool
    blocks: int
    floor: float

    @property
    def words(self) -> str:
        """The verdict as a sentence."""
        size = f"{self.ratio:+.1%} ({self.low:+.1%} to {self.high:+.1%})"
        if self.change is Change.SAME:
            return f"SAME: {size}, within {self.floor:.1%}"
        if self.change is Change.AMBIGUOUS:
            why = "significant, but maybe too small to matter" if self.significant else "could be chance"
            return f"AMBIGUOUS: {size}, {why} (p {self.adjusted:.2g})"
        return f"{self.change}: {size}, p {self.adjusted:.2g}"


def log_ratios(old: Sequence[Sequence[float]], new: Sequence[Sequence[float]], *, least: bool = False) -> Floats:
    """Of each pair of batches, the logarithm of new over old.

    Args:
        old, new: batches of times, pair by pair.
        least: compare the least time of each batch instead of the median: on a machine that other work shares,
            noise only ever adds. Whichever is chosen, the test stays exact, since both sides are treated alike.

    Raises:
        ValueError: unlike numbers of batches, an empty batch, or a time that is not positive.
    """
    if len(old) != len(new):
        raise ValueError(f"old has {len(old)} batches and new {len(new)}; they must be pairs")
    if not all(len(batch) and min(batch) > 0 for batch in (*old, *new)):
        raise ValueError("every batch must hold times above zero")
    sides = [
        np.array([float(np.min(batch) if least else np.median(batch)) for batch in side]) for side in (old, new)
    ]
    return np.log(sides[1]) - np.log(sides[0])


def adjust(p_values: Sequence[float]) -> list[float]:
    """p-values controlled for the false discovery rate of all of them together (Benjamini and Hochberg)."""
    if not p_values:
        return []
    from scipy import stats  # pyright: ignore[reportMissingTypeStubs]  # noqa: PLC0415  (slow to import)

    adjusted = cast("Floats", stats.false_discovery_control(np.asarray(p_values, np.float64)))  # pyright: ignore[reportUnknownMemberType]
    return [float(p) for p in adjusted]


def judge(
    differences: Sequence[Floats], limits: Limits = Limits(), floors: Sequence[float] | None = None
) -> list[Comparison]:
    """Verdicts of all comparisons of one run.

    Args:
        differences: of each series its :func:`log_ratios`.
        limits: when a difference counts.
        floors: of each series the noise that it is known to have between runs of one version, as a share
            (``noise.learned_floor``); a difference below counts as irrelevant. None for none known.
    """
    known = [0.0] * len(differences) if floors is None else list(floors)
    raw = [p_value(values) for values in differences]
    return [
        _verdict(values, p, adjusted, max(limits.relevance, floor), limits)
        for values, p, adjusted, floor in zip(differences, raw, adjust(raw), known, strict=True)
    ]


def _verdict(values: Floats, p: float, adjusted: float, floor: float, limits: Limits) -> Comparison:
    estimate, low, high = (float(np.expm1(x)) for x in interval(values, limits.confidence))
    significant = p <= limits.alpha and adjusted <= limits.family
    relevant = abs(estimate) >= floor
    if significant and relevant:
        change = Change.SLOWER if estimate > 0 else Change.FASTER
    elif -floor < low and high < floor:
        change = Change.SAME
    else:
        change = Change.AMBIGUOUS
    return Comparison(
        change, estimate, low, high, p, adjusted, significant, relevant, blocks=int(values.size), floor=floor
    )
