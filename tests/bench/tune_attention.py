"""Times decode attention under many plans and splits: how those of ``attention_plan`` were chosen.

``python3 tests/bench/tune_attention.py [--jobs N] [CASE ...]`` on a GPU, cases by name. Plans are compiled first,
by N processes. Each result is compared with the float64 specification, within its bound, for some tokens; a
plan that fails this, or does not fit the GPU, is shown as such. Nothing of this runs when a kernel is launched.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import torch

from kvproof.harness.bench.ceilings import measure_machine
from kvproof.harness.bench.inputs import on_device
from kvproof.harness.bench.timing import GraphTimer
from kvproof.kernels.attention_decode.kernel import sparse_attn_v4_paged_decode
from kvproof.kernels.attention_decode.spec import Source, attention
from kvproof.kernels.attention_plan import Plan, tiles
from kvproof.kernels.benchmark import BenchCase
from kvproof.kernels.launch import launching_on
from kvproof.kernels.registry import all_kernels, resolve

DEFAULT = (
    "csa-bf16-b512-q1-h16",
    "csa-fp8-b512-q1-h16",
    "csa-bf16-b512-q1-h128",
    "csa-fp8-b512-q1-h128",
    "csa-bf16-b64-q1-h16",
    "csa-fp8-b64-q1-h16",
)
TOKENS = 512
"""From so many tokens on a launch does not split, so only one number of splits is timed."""


def plans(heads: int, packed: bool) -> list[Plan]:
    """The plan in use, then others."""
    found = [tiles(heads, packed=packed, hip=False)]
    if heads <= 16:
        found += [Plan(16, n, w, s) for n, w, s in itertools.product([32, 64], [4, 8], [3, 5])]
        found += [Plan(16, 16, 4, 5), Plan(16, 32, 4, 7)]
    else:
        found += [Plan(h, n, 8, s) for h, n, s in itertools.product([32, 64], [32, 64], [2, 3])]
        found += [
            Plan(64, 64, 16, 3),
            Plan(64, 32, 8, 5),
            Plan(32, 32, 4, 3),
            Plan(32, 32, 8, 5),
            Plan(64, 128, 8, 2),
        ]
    # 64 heads by four warps need twice the registers that there are.
    return [p for p in dict.fromkeys(found) if p.block_h * 512 <= p.warps * 32 * 128]


def splits_of(tokens: int) -> list[int]:
    """Numbers of splits worth timing."""
    return [1] if tokens >= TOKENS else [1, 2, 4]


def compile_plan(heads: int, packed: bool, plan: Plan, split: bool) -> str:
    """Compile what a launch under a plan needs, in a process of its own; an error as text."""
    bf16 = {"dtype": torch.bfloat16, "device": "cuda"}
    arguments: dict[str, Any] = {
        "q": torch.zeros(1, heads, 512, **bf16),
        "unified_kv": torch.zeros(16, 512, dtype=torch.uint8, device="cuda")
        if packed
        else torch.zeros(16, 512, **bf16),
        "kv_indices": torch.zeros(16, dtype=torch.int32, device="cuda"),
        "kv_indptr": torch.zeros(16, dtype=torch.int32, device="cuda"),
        "attn_sink": torch.zeros(heads, device="cuda"),
        "scale": 512**-0.5,
        "out": torch.zeros(1, heads, 512, **bf16),
        "unified_kv_rope": torch.zeros(16, 64, **bf16) if packed else None,
    }

    def compiled(kernel: Any, grid: tuple[int, ...], *args: Any, **meta: Any) -> None:
        kernel.warmup(*args, grid=grid, **meta)

    try:
        with launching_on(compiled):
            sparse_attn_v4_paged_decode(**arguments, plan=plan, splits=2 if split else 1)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:80]}"
    return ""


class Expected:
    """The specification's results for some tokens of a case.

    Args:
        case: the case.
        arguments: its launcher's arguments, whose rows on the device are those that count.
    """

    def __init__(self, case: BenchCase, arguments: dict[str, Any]) -> None:
        values = case.values
        count = values["q"].shape[0]
        self.tokens = sorted({0, count // 2, count - 1})
        self.out = arguments["out"]
        q, plane, rope = (_bits(arguments[name]) for name in ("q", "unified_kv", "unified_kv_rope"))
        indices, indptr = values["kv_indices"].array, values["kv_indptr"].array
        source = Source(plane, rope, values["variant"], indices, indptr)
        self.found = attention(q, self.tokens, [source], values["attn_sink"].array, values["scale"])

    def error(self) -> float:
        """The largest error of the last launch over its bound; at most 1 is right."""
        got = self.out[self.tokens].double().cpu().numpy()
        # A cell that was not written is NaN, and so is the largest error then.
        return float(np.max(np.abs(got - self.found.exact) / self.found.error))


def _bits(value: torch.Tensor | None) -> Any:
    if value is None:
        return None
    kept = value.view(torch.int16) if value.dtype == torch.bfloat16 else value
    array = kept.cpu().numpy()
    return array.view(np.uint16) if array.dtype == np.int16 else array


def lines(name: str, case: BenchCase, timer: GraphTimer, machine: Any, refused: dict[Any, str]) -> Iterator[str]:
    """A line a plan and number of splits; the best last."""
    arguments = on_device(all_kernels()["attention_decode"], case, "cuda")
    expected = Expected(case, arguments)
    bound = machine.bound(case.bytes_moved, case.operations)
    tokens, heads = case.values["q"].shape[:2]
    packed = case.values["unified_kv_rope"] is not None
    times: list[tuple[float, str]] = []
    for plan, splits in itertools.product(plans(heads, packed), splits_of(tokens)):
        text = f"{name:<24} {plan.block_h:4} {plan.block_n:4} {plan.warps:3} {plan.stages:2} splits {splits}"
        why = refused.get((heads, packed, plan, splits > 1), "")
        if not why:
            try:
                arguments["out"].fill_(float("nan"))
                launch = partial(sparse_attn_v4_paged_decode, **{**arguments, "splits": splits}, plan=plan)
                median = timer.time(launch).median
                off = expected.error()
                times.append((median if off <= 1 else float("inf"), text))
                why = f"{median:8.1f} us, {bound / median * 1e6:6.1%} of its bound, error {off:.2f} of its bound"
            except Exception as error:
                why = f"{type(error).__name__}: {str(error)[:80]}"
        yield f"{text}: {why}"
    for median, text in sorted(times)[:3]:
        yield f"best  {text}: {median:8.1f} us, {bound / median * 1e6:6.1%}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line a plan."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=DEFAULT)
    parser.add_argument("--jobs", type=int, default=8)
    given = parser.parse_args(arguments)
    cases = resolve(all_kernels()["attention_decode"].cases)()
    wanted: dict[tuple[Any, ...], None] = {}
    for name in given.cases:
        values = cases[name].values
        tokens, heads = values["q"].shape[:2]
        packed = values["unified_kv_rope"] is not None
        for plan, splits in itertools.product(plans(heads, packed), splits_of(tokens)):
            wanted[heads, packed, plan, splits > 1] = None
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(given.jobs, mp_context=context) as pool:
        errors = list(pool.map(compile_plan, *zip(*wanted, strict=True)))
    refused = {key: why for key, why in zip(wanted, errors, strict=True) if why}
    timer = GraphTimer(20)
    machine = measure_machine(timer)
    print(machine.name, f"copy {machine.copy / 1e9:.0f} GB/s", f"matrices {machine.matrix / 1e12:.0f} TFLOP/s")
    for name in given.cases:
        for line in lines(name, cases[name], timer, machine, refused):
            print(line, flush=True)


if __name__ == "__main__":
    main()
