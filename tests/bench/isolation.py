"""What isolation costs: the same cases in this process and in a worker, in steady state.

``python tests/bench/isolation.py [device] [--cases N] [--seconds S] [--kernels NAME,...]`` prints cases a second,
twice over. *Campaign* is what a run of a target does: draw a case, compute what to expect, launch, compare. *Drawn
before* is the same without drawing, which leaves a worker the least to overlap with. Steady state: the target is
loaded, and every kernel that the cases need has been compiled by a first run of the same seed, in either process.

Rounds go over all kernels, and within one the two ways take turns in who begins, until the time is over. A cost is
a round's, so that what slows the machine for a while falls on both sides of it; the table has their quartiles.
``--warm`` only compiles, for several processes to do so beforehand.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from hypothesis import HealthCheck, Phase, given, settings

from kvproof.harness.check.differential import CaseCheck, check_case
from kvproof.harness.devices.base import Device
from kvproof.harness.devices.registry import find_device
from kvproof.harness.run.ahead import Ahead, Drawn
from kvproof.harness.run.trial import Trial, find_causes
from kvproof.harness.targets.device import IsolatedDevice
from kvproof.harness.targets.spec import TargetSpec
from kvproof.kernels.registry import all_kernels
from kvproof.properties.strategies.cases import Case, all_kernel_properties

LEAST_ROUNDS = 4
WAYS = ("campaign", "drawn before")


def campaign(name: str, device: Device, count: int) -> None:
    """Draw, run and judge so many cases."""
    kernel, prop = all_kernels()[name], all_kernel_properties()[name]
    trial = Trial(kernel, device, prop, None, None, tolerated=True)
    hunt = find_causes(trial, budget_seconds=1e6, seed=0, case_target=count, most_causes=1, shrink_seconds=1.0)
    if hunt.failures or trial.ran != count:
        raise RuntimeError(f"{name} ran {trial.ran} cases of {count} with {len(hunt.failures)} causes")


def drawn(name: str, count: int) -> list[Case]:
    """Some cases of a kernel, the same every time."""
    found: list[Case] = []

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=cast("list[HealthCheck]", list(HealthCheck)),
    )
    @given(all_kernel_properties()[name].cases(None))
    def collect(case: Case) -> None:
        found.append(case)

    collect()
    return found


def one_by_one(name: str, cases: list[Case], device: Device) -> None:
    """Run and judge cases, each waited for."""
    kernel = all_kernels()[name]
    for case in cases:
        check_case(kernel, device, case)


def overlapping(name: str, cases: list[Case], device: Device) -> None:
    """Run and judge cases, each while the one before it is on its way."""
    kernel, ahead = all_kernels()[name], Ahead(tuple)
    for case in cases:
        before = ahead.next(Drawn(CaseCheck(kernel, device, case), 0, 0))
        if before is not None:
            before.check.judge()
    while (last := ahead.last()) is not None:
        last.check.judge()


@dataclass
class Series:
    """One kernel in one way: what runs here, what runs in a worker, and the seconds that they took.

    Attributes:
        ways: both.
        cases: of one run.
        seconds: of each round, (here, in a worker).
    """

    ways: tuple[Callable[[], None], Callable[[], None]]
    cases: int
    seconds: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])

    def round(self, number: int) -> None:
        """Time both, the one that began last time behind the other."""
        found = [0.0, 0.0]
        for way in (0, 1) if number % 2 == 0 else (1, 0):
            gc.collect()  # what one has left is not for the other to clear away
            begun = time.perf_counter()
            self.ways[way]()
            found[way] = time.perf_counter() - begun
        self.seconds.append((found[0], found[1]))

    def rates(self) -> tuple[float, float]:
        """Cases a second, of the median round."""
        here, there = (statistics.median(column) for column in zip(*self.seconds, strict=True))
        return self.cases / here, self.cases / there

    def costs(self) -> list[float]:
        """Quartiles of what the worker costs in a round: a share of the throughput here."""
        costs = [1 - here / there for here, there in self.seconds]
        return statistics.quantiles(costs, n=4, method="inclusive") if len(costs) > 1 else costs * 3


def series_of(name: str, count: int, here: Device, there: Device) -> dict[str, Series]:
    """Both ways of one kernel."""
    cases = drawn(name, count)
    return {
        "campaign": Series((partial(campaign, name, here, count), partial(campaign, name, there, count)), count),
        "drawn before": Series(
            (partial(one_by_one, name, cases, here), partial(overlapping, name, cases, there)), len(cases)
        ),
    }


def measured(
    names: list[str], count: int, seconds: float, here: Device, there: Device
) -> dict[str, dict[str, Series]]:
    """Rounds of all kernels until the time is over. A kernel that does not compile in its share is left out."""
    begun, found = time.monotonic(), dict[str, dict[str, Series]]()
    for place, name in enumerate(names):
        if time.monotonic() - begun > seconds / 2:
            print(f"left out, half the time went into compiling: {', '.join(names[place:])}")
            break
        found[name] = series_of(name, count, here, there)
        for series in found[name].values():
            for way in series.ways:
                way()
    number = 0
    while number < LEAST_ROUNDS or time.monotonic() - begun < seconds:
        for each in found.values():
            for series in each.values():
                series.round(number)
        number += 1
    return found


def print_table(found: dict[str, dict[str, Series]]) -> None:
    """A line a kernel, and what is over all of them."""
    print(f"{'kernel':22}" + "".join(f"{f'{way}: here':>19}{'worker':>8}{'cost, quartiles':>24}" for way in WAYS))
    every: dict[str, list[float]] = {way: [] for way in WAYS}
    for name, each in found.items():
        line = f"{name:22}"
        for way in WAYS:
            rates, costs = each[way].rates(), each[way].costs()
            every[way].append(costs[1])
            line += f"{rates[0]:19.0f}{rates[1]:8.0f}{' '.join(f'{c:.1%}' for c in costs):>24}"
        print(line)
    for way, costs in every.items():
        middle = statistics.median(costs)
        print(f"{way}: the middle one of the kernels' medians is {middle:.1%}, the highest {max(costs):.1%}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("device", nargs="?", default="cuda")
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--kernels", default="")
    parser.add_argument("--warm", action="store_true")
    given_ = parser.parse_args()
    known = [name for name in all_kernel_properties() if name in all_kernels() and all_kernels()[name].launcher]
    names = given_.kernels.split(",") if given_.kernels else known
    wrong = [name for name in names if name not in known]
    if wrong:
        parser.error(f"--kernels has {wrong[0]!r}; allowed: {', '.join(known)}")
    here, there = find_device(given_.device), IsolatedDevice(TargetSpec(), given_.device)
    try:
        if given_.warm:
            for name in names:
                for series in series_of(name, given_.cases, here, there).values():
                    series.ways[0]()
            return
        found = measured(names, given_.cases, given_.seconds, here, there)
        rounds = len(next(iter(found.values()))["campaign"].seconds)
        print(f"{here.probe().detail}; {given_.cases} cases a run, {rounds} rounds; cases a second")
        print_table(found)
    finally:
        there.close()


if __name__ == "__main__":
    main()
