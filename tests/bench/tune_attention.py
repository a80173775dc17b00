"""Times decode attention under every sensible plan: how the plans of ``attention_launch`` were chosen.

``python3 tests/bench/tune_attention.py [CASE ...]`` on a GPU; cases by name, all of one query token by default.
A plan that does not fit the GPU is shown as such. Nothing of this runs when a kernel is launched.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from functools import partial

from kvproof.harness.bench.inputs import on_device
from kvproof.harness.bench.table import measure_machine
from kvproof.harness.bench.timing import GraphTimer
from kvproof.kernels.attention_launch import Plan, tiles
from kvproof.kernels.registry import all_kernels, resolve

DEFAULT = ("csa-bf16-b512-q1-h16", "csa-fp8-b512-q1-h16", "csa-bf16-b512-q1-h128", "csa-fp8-b512-q1-h128")


def plans(heads: int, packed: bool) -> Iterator[Plan]:
    """The plan in use, then others."""
    used = tiles(heads, packed=packed, hip=False)
    yield used
    sizes = [16] if heads <= 16 else [32, 64]
    for block_h, block_n, warps, stages in itertools.product(sizes, [64], [4, 8], [1, 2, 3, 4]):
        found = Plan(block_h, block_n, warps, stages)
        if found != used:
            yield found


def main(names: list[str]) -> None:
    """Print a line a plan."""
    kernel = all_kernels()["attention_decode"]
    cases = resolve(kernel.cases)()
    timer = GraphTimer(20)
    machine = measure_machine(timer)
    print(machine)
    for name in names or DEFAULT:
        case = cases[name]
        arguments = on_device(kernel, case, "cuda")
        bound = machine.bound(case)
        for plan in plans(case.values["q"].shape[1], case.values["unified_kv_rope"] is not None):
            try:
                median = timer.time(partial(kernel.load(), **arguments, plan=plan)).median
            except Exception as error:
                print(f"{name:<26} {plan}: {type(error).__name__}: {str(error)[:80]}", flush=True)
                continue
            print(f"{name:<26} {plan}: {median:8.1f} us, {bound / median * 1e6:6.1%} of its bound", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
