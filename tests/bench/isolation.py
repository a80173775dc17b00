"""What isolation costs: the same cases in this process and in a worker, in steady state.

``python tests/bench/isolation.py [device] [cases]`` prints cases a second, twice over. *Campaign* is what a run of
a target does: draw a case, compute what to expect, launch, compare. *Drawn before* is the same without drawing,
which leaves a worker the least to overlap with. Steady state: the target is loaded, and every kernel that the
cases need has been compiled by a first run of the same seed, in either process. Rounds of the two take turns.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
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

ROUNDS = 5
KERNELS = ("window_write", "row_scatter", "decode_indices", "state_update", "attention_decode")


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


def rates(count: int, *ways: Callable[[], None]) -> list[float]:
    """Cases a second of each way: median of rounds that take turns, after one that compiles."""
    times: list[list[float]] = [[] for _ in ways]
    for way in ways:
        way()
    for _ in range(ROUNDS):
        for way, found in zip(ways, times, strict=True):
            begun = time.perf_counter()
            way()
            found.append(time.perf_counter() - begun)
    return [count / statistics.median(found) for found in times]


def main(device: str, count: int) -> None:
    """Print the table."""
    here, there = find_device(device), IsolatedDevice(TargetSpec(), device)
    print(f"{here.probe().detail}; {count} cases, median of {ROUNDS} rounds; cases a second")
    heads = ("campaign", "isolated", "cost", "drawn before", "isolated", "cost", "one by one")
    print(f"{'kernel':18}" + "".join(f"{head:>13}" for head in heads))
    worst = [0.0, 0.0]
    for name in KERNELS:
        whole = rates(count, *(partial(campaign, name, on, count) for on in (here, there)))
        cases = drawn(name, count)
        parts = rates(
            len(cases),
            partial(one_by_one, name, cases, here),
            partial(overlapping, name, cases, there),
            partial(one_by_one, name, cases, there),
        )
        costs = [whole[0] / whole[1] - 1, parts[0] / parts[1] - 1]
        worst = [max(pair) for pair in zip(worst, costs, strict=True)]
        print(
            f"{name:18}{whole[0]:13.0f}{whole[1]:13.0f}{costs[0]:13.1%}"
            f"{parts[0]:13.0f}{parts[1]:13.0f}{costs[1]:13.1%}{parts[2]:13.0f}",
            flush=True,
        )
    there.close()
    print(f"highest cost: campaign {worst[0]:.1%}, drawn before {worst[1]:.1%}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "cuda", int(sys.argv[2]) if len(sys.argv) > 2 else 200)
