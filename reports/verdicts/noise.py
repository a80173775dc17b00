"""What a series' values do while nothing changes, learned from runs of one version against itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

FEWEST = 5
"""Runs of a version against itself from which its noise is taken; fewer say too little."""

SPREADS = 4.0
"""Standard deviations between runs that a difference has to exceed."""


def learned_floor(ratios: Sequence[float]) -> float:
    """Share below which a difference is the series' own noise; 0 while too little is known.

    Args:
        ratios: results of comparing one version with itself (new over old, minus one), one a run. Within a run the
            order of the sides is drawn; what this adds is what stays the same during a run and differs between
            runs: placement of code and data, another process, another day.
    """
    if len(ratios) < FEWEST:
        return 0.0
    values = np.abs(np.asarray(ratios, np.float64))
    # 1.4826 times the median of absolute values is the standard deviation of a normal sample around zero, and
    # does not see a few outliers.
    return SPREADS * 1.4826 * float(np.median(values))
