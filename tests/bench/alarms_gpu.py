"""Comparisons of a GPU kernel with itself, and with itself made 3 % slower; raw samples to a file.

``python3 tests/bench/alarms_gpu.py --out FILE [--alike N] [--slowed N] [--seconds S]``; ``alarms.py`` judges it.

Both sides of a comparison read the same inputs and have graphs of their own. A slowed side runs a delay within the
timed graph, after the kernel; the plain side runs the same delay kernel with fewer turns. What the delay really
costs is measured apart, with many samples, and kept.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl

from kvproof.harness.bench.clocks import gpu_clock
from kvproof.harness.bench.gpu_samples import GraphSampler, flush_buffer
from kvproof.harness.bench.inputs import on_device
from kvproof.harness.bench.measure import Batch, Paired, Plan, interleave
from kvproof.kernels.registry import all_kernels, resolve

LONG = (
    ("attention_decode", "csa-bf16-b8-q4-h16"),
    ("attention_decode", "csa-bf16-b64-q1-h16"),
    ("fp8_pack", "rows262144"),
    ("fused_compress", "csa-bf16-prefill-t8192"),
    ("fused_compress", "hca-bf16-decode-b64"),
    ("row_index", "rows1048576"),
)
"""Kernels of 20 us and more on an H200: these are slowed."""

SHORT = (
    ("csa_translate", "b64-q4"),
    ("decode_indices", "b64-q4"),
    ("fp8_unpack", "rows8192"),
    ("page_append", "packed-t4096"),
    ("prefill_indices", "t8192-prefix8192"),
    ("window_write", "decode-b512-q1"),
)
PLAN = Plan(batch=8, fewest=20, most=24, spread=0.0, seconds=4.0, warm=4)
TURNS = 200


@triton.jit(do_not_specialize=["turns"])
def delay_kernel(out_ptr, turns):
    """One program that computes for so many turns, each waiting for the last."""
    value = tl.load(out_ptr)
    for _ in range(turns):
        value = value * 1664525 + 1013904223
    tl.store(out_ptr, value)


Inputs = list[tuple[Any, dict[str, Any], torch.Tensor]]


def inputs_of(kernel: str, case: str) -> Inputs:
    """Two sets of rotating inputs, with a word for the delay."""
    known = all_kernels()[kernel]
    made = resolve(known.cases)()[case]
    word = torch.ones(1, dtype=torch.int32, device="cuda")
    return [(known.load(), on_device(known, made, "cuda"), word) for _ in range(2)]


def launches_of(inputs: Inputs, turns: int | None) -> list[Callable[[], None]]:
    """The launch on each of the inputs, followed by a delay if one is asked for."""
    return [partial(run_once, launcher, arguments, word, turns) for launcher, arguments, word in inputs]


def run_once(launcher: Any, arguments: dict[str, Any], word: torch.Tensor, turns: int | None) -> None:
    """One launch and its delay."""
    launcher(**arguments)
    if turns is not None:
        delay_kernel[(1,)](word, turns, num_warps=1)


def nanoseconds_a_turn(flush: torch.Tensor) -> float:
    """What a turn of the delay costs."""
    times: list[float] = []
    for turns in (1000, 21000):
        word = torch.ones(1, dtype=torch.int32, device="cuda")
        sampler = GraphSampler([partial(delay, word, turns)], flush, packed=False)
        times.append(statistics.median(sampler(50)))
    return (times[1] - times[0]) * 1000.0 / 20000


def delay(word: torch.Tensor, turns: int) -> None:
    """The delay alone."""
    delay_kernel[(1,)](word, turns, num_warps=1)


def encoded(batch: Batch) -> dict[str, Any]:
    return {
        "samples": [round(sample, 4) for sample in batch.samples],
        "mhz": batch.reading.mhz,
        "celsius": batch.reading.celsius,
    }


def kept(name: str, kind: str, paired: Paired, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "kind": kind,
        "old": [encoded(batch) for batch in paired.old],
        "new": [encoded(batch) for batch in paired.new],
        "new_first": list(paired.new_first),
        **more,
    }


def alike(name: str, inputs: Inputs, count: int, flush: torch.Tensor, clock: Any) -> list[dict[str, Any]]:
    """Comparisons of a kernel with itself."""
    first = GraphSampler(launches_of(inputs, None), flush)
    second = GraphSampler(launches_of(inputs, None), flush, packed=first.mode == "packed")
    return [
        kept(name, "alike", interleave(first, second, seed, PLAN, clock), mode=first.mode) for seed in range(count)
    ]


def slowed(
    name: str, inputs: Inputs, count: int, flush: torch.Tensor, clock: Any, turn: float, share: float
) -> list[dict[str, Any]]:
    """Comparisons of a kernel with itself slowed by a share."""
    plain = GraphSampler(launches_of(inputs, TURNS), flush, packed=False)
    typical = statistics.median(plain(60))
    extra = round(share * typical * 1000.0 / turn)
    slow = GraphSampler(launches_of(inputs, TURNS + extra), flush, packed=False)
    truth = interleave(plain, slow, 500, Plan(batch=20, fewest=30, most=30, spread=0.0, seconds=8.0), clock)
    sides = [[s for batch in side for s in batch.samples] for side in (truth.old, truth.new)]
    true = statistics.median(sides[1]) / statistics.median(sides[0]) - 1
    more = {"mode": plain.mode, "turns": extra, "true": true, "microseconds": statistics.median(sides[0])}
    return [
        kept(name, f"slowed {share:g}", interleave(plain, slow, seed, PLAN, clock), **more)
        for seed in range(count)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 2 without a GPU, 1 if a series could not be measured, 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--alike", type=int, default=30, help="comparisons of each series with itself")
    parser.add_argument(
        "--slowed", type=int, default=12, help="comparisons of each long series with itself slowed"
    )
    parser.add_argument("--share", type=float, default=0.03, help="how much slower")
    parser.add_argument("--seconds", type=float, default=200.0, help="stop after so long")
    given = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        print("no GPU here", file=sys.stderr)
        return 2
    begun, clock, flush = time.monotonic(), gpu_clock(), flush_buffer()
    turn = nanoseconds_a_turn(flush)
    print(f"{torch.cuda.get_device_name()}, {clock()}, a turn of the delay {turn:.2f} ns")
    found: list[dict[str, Any]] = []
    failed = 0
    for place, (kernel, case) in enumerate((*LONG, *SHORT)):
        if time.monotonic() - begun > given.seconds:
            print(f"stopped after {given.seconds:g} s before {kernel}/{case}")
            break
        try:
            inputs = inputs_of(kernel, case)
            found += alike(f"{kernel}/{case}", inputs, given.alike, flush, clock)
            if place < len(LONG):
                found += slowed(f"{kernel}/{case}", inputs, given.slowed, flush, clock, turn, given.share)
        except Exception as error:
            failed += 1
            print(f"{kernel}/{case}: {type(error).__name__}: {str(error)[:300]}")
        inputs = []
        gc.collect()
        torch.cuda.empty_cache()
        print(f"{kernel}/{case}: {time.monotonic() - begun:.0f} s", flush=True)
    device = {"name": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__}
    given.out.write_text(json.dumps({"device": device, "turn_ns": turn, "comparisons": found}), encoding="utf-8")
    kinds = sorted({item["kind"] for item in found})
    print(
        {kind: sum(item["kind"] == kind for item in found) for kind in kinds}, f"{time.monotonic() - begun:.0f} s"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
