"""What isolation costs: the same drawn cases in this process and in a worker, in steady state.

``python tests/bench/isolation.py [device]`` prints cases a second: of whole checks (expected result, launch,
comparison), of launches alone, and of launches of which one request brings many.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings

from kvproof.harness.check.differential import check_case
from kvproof.harness.devices.registry import find_device
from kvproof.harness.targets.device import IsolatedDevice
from kvproof.harness.targets.spec import TargetSpec
from kvproof.kernels.registry import all_kernels
from kvproof.properties.strategies.cases import Case, all_kernel_properties

ROUNDS = 7
CASES = 60


def drawn(name: str) -> list[Case]:
    """Some cases of a kernel, the same every time."""
    found: list[Case] = []

    @settings(
        max_examples=CASES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(all_kernel_properties()[name].cases(None))
    def collect(case: Case) -> None:
        found.append(case)

    collect()
    return found


def seconds(what: Callable[[], Any]) -> float:
    """Median of some rounds."""
    times = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        what()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def main(device: str) -> None:
    """Print the table."""
    here, there = find_device(device), IsolatedDevice(TargetSpec(), device)
    print(f"{here.probe().detail}; {CASES} cases, median of {ROUNDS} rounds")
    heads = ("in-process", "isolated", "cost", "launch only", "isolated", "batched")
    print(f"{'kernel':20}" + "".join(f"{head:>13}" for head in heads))
    for name in ("window_write", "row_scatter", "decode_indices", "state_update", "attention_decode"):
        kernel, cases = all_kernels()[name], drawn(name)

        def checks(on: Any, kernel: Any = kernel, cases: list[Case] = cases) -> None:
            for case in cases:
                check_case(kernel, on, case)

        def launches(on: Any, kernel: Any = kernel, cases: list[Case] = cases) -> None:
            for case in cases:
                on.run(kernel, case.values)

        def batched(kernel: Any = kernel, cases: list[Case] = cases) -> None:
            there.run_many(kernel, [case.values for case in cases])

        checks(here)
        checks(there)
        whole = [seconds(lambda on=on: checks(on)) for on in (here, there)]
        only = [seconds(lambda on=on: launches(on)) for on in (here, there)]
        together = seconds(batched)
        count = len(cases)
        print(
            f"{name:20}{count / whole[0]:11.0f}/s{count / whole[1]:11.0f}/s{whole[1] / whole[0] - 1:13.1%}"
            f"{count / only[0]:11.0f}/s{count / only[1]:11.0f}/s{count / together:11.0f}/s"
        )
    there.close()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "cuda")
