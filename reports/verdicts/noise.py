"""What a series' values do while nothing changes, learned from runs of one version against itself."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence

import numpy as np

from kvproof.reports.history.run import ALIKE, Run
from kvproof.reports.verdicts.compare import log_ratios
from kvproof.reports.verdicts.signed_rank import interval

_log = logging.getLogger("kvproof")

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


def learned_floors(runs: Iterable[Run], host: str, device: str = "cpu") -> dict[str, float]:
    """Of each series that was compared with itself often enough on this machine, the share of its own noise.

    Args:
        runs: the history.
        host, device: the machine, and what of it; another machine's noise says nothing.
    """
    ratios: dict[str, list[float]] = {}
    for run in runs:
        if run.device != device or run.machine.get("host") != host:
            continue
        for times in run.times:
            if times.mode == ALIKE:
                try:
                    if times.fault:
                        raise ValueError(times.fault)
                    values = log_ratios(times.batches[0::2], times.batches[1::2], least=device == "cpu")
                    ratio = math.expm1(interval(values)[0])
                except (ValueError, OverflowError) as error:
                    # One run that cannot be used costs itself, and not whoever asks for the noise of all others.
                    _log.warning("%s compared with itself at %s: %s; left out", times.name, run.started, error)
                    continue
                ratios.setdefault(times.name, []).append(ratio)
    return {name: learned_floor(found) for name, found in ratios.items() if len(found) >= FEWEST}
