"""False alarms and power of the interleaved comparison, beside the rules that people use today.

    python tests/bench/alarms.py synthetic --out FILE       100,000 comparisons of noise with itself
    python tests/bench/alarms.py cpu --out FILE             real ones on this machine: alike, and 10 % slower
    python tests/bench/alarms.py workers --out FILE         fresh workers that take turns, alike, many at once
    python tests/bench/alarms.py table FILE... [--write]    what was found, as Markdown; into docs/performance.md

``alarms_gpu.py`` writes the file of a GPU. Files of real runs hold raw samples: every rule is judged on the same.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from noise import SHAPES, shape_of
from pytest_benchmark.utils import PercentageRegressionCheck

from kvproof.harness.bench.alternate import PAIRS, take_turns
from kvproof.harness.bench.cpu_series import cpu_series
from kvproof.harness.bench.measure import CallSampler, Paired, Plan, Sampler, interleave
from kvproof.reports.verdicts.compare import Change, Limits, judge, log_ratios
from kvproof.reports.verdicts.noise import learned_floor

DOCS = Path(__file__).resolve().parents[2] / "docs" / "performance.md"
BLOCKS, BATCH = 24, 4
A_RUN = 100
"""Series of a synthetic run, judged together."""

SERIES = ("layout v4-flash", "layout v4-pro-dspark", "compress_plans on the host", "csa_translate on ir")
SERIES += ("decode_indices on ir", "hca_head on ir", "row_index on ir")
PLAN = Plan(batch=4, fewest=20, most=20, spread=0.0, seconds=60.0, warm=2)
# What is slowed is measured longer: on a shared core the least of ten samples is worth far more than of four.
POWER_PLAN = Plan(batch=10, fewest=40, most=40, spread=0.0, seconds=120.0, warm=2)
TURN, SHARED = 12, 12
"""Samples of a series in a fresh worker for one comparison, as in the gate, and comparisons that it serves."""
CPU_LIMITS = Limits(relevance=0.05)
GPU_LIMITS = Limits(relevance=0.01)

Sides = tuple[Sequence[Sequence[float]], Sequence[Sequence[float]]]
Rule = Callable[[Sequence[Sides], Limits], list[bool]]


# ---- rules ----------------------------------------------------------------------------


def verdicts(sides: Sequence[Sides], limits: Limits) -> list[bool]:
    """This project's rule: whether each series is called SLOWER or FASTER."""
    # On a CPU the least time of a batch, as the gate does; on a GPU its median.
    least = limits is CPU_LIMITS
    found = judge([log_ratios(*pair, least=least) for pair in sides], limits)
    return [comparison.change in {Change.SLOWER, Change.FASTER} for comparison in found]


def alone(sides: Sequence[Sides], limits: Limits) -> list[bool]:
    """The same with every series judged alone, so that nothing but its own p-value holds it back."""
    return [verdicts([pair], limits)[0] for pair in sides]


def flat(side: Sequence[Sequence[float]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.asarray([sample for batch in side for sample in batch])


def compare_fail(field: str, percent: float) -> Rule:
    """``--benchmark-compare-fail=FIELD:PERCENT%`` of pytest-benchmark, by its own class."""
    check = PercentageRegressionCheck(field, percent)
    summary = {"mean": np.mean, "min": np.min, "median": np.median}[field]

    def rule(sides: Sequence[Sides], _limits: Limits) -> list[bool]:
        return [bool(check.fails({field: summary(flat(new))}, {field: summary(flat(old))})) for old, new in sides]

    return rule


def three_sigma(sides: Sequence[Sides], _limits: Limits) -> list[bool]:
    """New mean above the old one by three standard deviations of the old samples."""
    return [bool(flat(new).mean() > flat(old).mean() + 3 * flat(old).std(ddof=1)) for old, new in sides]


def three_errors(sides: Sequence[Sides], _limits: Limits) -> list[bool]:
    """New mean above the old one by three standard errors of the difference."""
    found: list[bool] = []
    for old, new in sides:
        a, b = flat(old), flat(new)
        error = math.sqrt(a.var(ddof=1) / a.size + b.var(ddof=1) / b.size)
        found.append(bool(b.mean() > a.mean() + 3 * error))
    return found


RULES: Mapping[str, Rule] = {
    "kvproof": verdicts,
    "kvproof, each alone": alone,
    "compare-fail mean:5%": compare_fail("mean", 5),
    "compare-fail min:5%": compare_fail("min", 5),
    "compare-fail mean:2%": compare_fail("mean", 2),
    "mean + 3 sigma": three_sigma,
    "mean + 3 standard errors": three_errors,
}


# ---- samples --------------------------------------------------------------------------


def synthetic(out: Path, comparisons: int) -> None:
    """Comparisons of one stream of noise with itself, run by run; keeps counts only."""
    rng = np.random.default_rng(20260811)
    shapes = list(SHAPES)
    runs = comparisons // A_RUN
    counts = {shape: {"comparisons": 0, **dict.fromkeys(RULES, 0)} for shape in shapes}
    alarmed = 0
    for run in range(runs):
        shape = shapes[run % len(shapes)]
        sides = [stream(SHAPES[shape], rng) for _ in range(A_RUN)]
        for name, rule in RULES.items():
            alarms = sum(rule(sides, GPU_LIMITS))
            counts[shape][name] += alarms
            alarmed += name == "kvproof" and alarms > 0
        counts[shape]["comparisons"] += A_RUN
    found = {"kind": "synthetic", "runs": runs, "runs with an alarm": alarmed, "shapes": counts}
    out.write_text(json.dumps(found, indent=1), encoding="utf-8")


def stream(shape: Callable[[np.random.Generator, int], Any], rng: np.random.Generator) -> Sides:
    """One stream of samples, dealt to both sides as ``interleave`` deals them."""
    samples = shape(rng, 2 * BLOCKS * BATCH).reshape(BLOCKS, 2, BATCH)
    swapped = rng.random(BLOCKS) < 0.5
    old = np.where(swapped[:, None], samples[:, 1], samples[:, 0])
    new = np.where(swapped[:, None], samples[:, 0], samples[:, 1])
    return old.tolist(), new.tolist()


def kept(name: str, kind: str, paired: Paired, **more: Any) -> dict[str, Any]:
    sides = [[[round(s, 3) for s in batch.samples] for batch in side] for side in (paired.old, paired.new)]
    return {"name": name, "kind": kind, "old": sides[0], "new": sides[1], **more}


def cpu(out: Path, in_process: int, worker_sets: int, slowed: int) -> None:
    """Real comparisons on this machine, within a process and between fresh workers that take turns."""
    begun, found = time.monotonic(), list[dict[str, Any]]()
    makers = cpu_series()
    calls = {name: makers[name]() for name in SERIES}
    for number in range(slowed):
        name = SERIES[number % len(SERIES)]
        plain, slow, share = stretched(calls[name], 0.10)
        found.append(kept(name, "slowed 0.1", interleave(plain, slow, number, POWER_PLAN), true=share))
    for number in range(in_process):
        # Mostly the quick ones, so that thousands fit in minutes.
        name = SERIES[number % len(SERIES) if number % 5 == 0 else number % 3]
        first = CallSampler(calls[name], 60.0)
        second = CallSampler(calls[name], repeats=first.repeats)
        found.append(kept(name, "alike, one process", interleave(first, second, number, PLAN)))
    for number in range(worker_sets):
        measured = take_turns(None, None, list(makers), number)
        for name, paired in measured.paired.items():
            found.append(kept(name, "alike, fresh workers", paired))
        for name, why in measured.failed.items():
            print(f"NOT_RUN {name}: {why}")
    seconds = round(time.monotonic() - begun)
    out.write_text(json.dumps({"kind": "cpu", "seconds": seconds, "comparisons": found}), encoding="utf-8")


def workers(out: Path, seconds: float, jobs: int) -> None:
    """Comparisons of this version with itself as the gate makes them: pairs of fresh processes, in drawn order.

    A process serves a comparison of each series with every :data:`TURN` samples that it takes. So comparisons of
    one set share what a process keeps for its life; each has its own samples.
    """
    begun, found, failed = time.monotonic(), list[dict[str, Any]](), dict[str, str]()
    numbers = itertools.count(1)
    layouts = [name for name in cpu_series() if name.startswith("layout ")]

    def lane() -> None:
        longest = 0.0
        while time.monotonic() - begun + longest < seconds:
            number, started = next(numbers), time.monotonic()
            # Kernels need torch, which takes most of a process's time: every thirtieth set.
            names = [name for name in SERIES if name not in layouts] if number % 30 == 2 else layouts
            left = seconds - (started - begun)
            measured = take_turns(None, None, names, number, batch=SHARED * TURN, seconds=left)
            for name, paired in measured.paired.items():
                if len(paired.old) < PAIRS:
                    continue
                for part in range(SHARED):
                    cut = slice(part * TURN, (part + 1) * TURN)
                    old, new = (
                        [[round(s, 3) for s in batch.samples[cut]] for batch in side]
                        for side in (paired.old, paired.new)
                    )
                    found.append({"name": name, "kind": "alike, fresh workers", "old": old, "new": new})
            failed.update(measured.failed)
            longest = max(longest, time.monotonic() - started)

    with ThreadPoolExecutor(jobs) as pool:
        for future in [pool.submit(lane) for _ in range(jobs)]:
            future.result()
    for name, why in failed.items():
        print(f"NOT_RUN {name}: {why}")
    where = f"Between fresh processes, {jobs} sets at once on {os.cpu_count()} cores:"
    spent = round(time.monotonic() - begun)
    out.write_text(
        json.dumps({"kind": "cpu", "where": where, "seconds": spent, "comparisons": found}), encoding="utf-8"
    )
    print(f"{len(found)} comparisons in {next(numbers) - 1} sets, {spent} s")


def stretched(call: Callable[[], object], share: float) -> tuple[Sampler, Sampler, float]:
    """A call, the call with so much more work after it, and how much more that is on its own."""
    plain = CallSampler(call, 60.0)
    typical = min(plain(80))
    turn = min(CallSampler(lambda: turns(1000), 120.0)(80)) / 1000
    extra = round(share * typical / turn)

    def slow() -> None:
        call()
        turns(extra)

    return plain, CallSampler(slow, repeats=plain.repeats), extra * turn / typical


def turns(count: int) -> int:
    """Work that takes so many turns."""
    value = 1
    for _ in range(count):
        value = (value * 1664525 + 1013904223) & 0xFFFFFFFF
    return value


# ---- what was found -------------------------------------------------------------------


def table(paths: Sequence[Path]) -> Iterator[str]:
    """Markdown lines of all files."""
    for path in paths:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data.get("kind") == "synthetic":
            yield from synthetic_table(data)
        else:
            yield from real_table(data)


def synthetic_table(data: Mapping[str, Any]) -> Iterator[str]:
    """False alarms by noise shape."""
    total = sum(c["comparisons"] for c in data["shapes"].values())
    yield f"{total:,} comparisons of generated noise with itself: alarms a thousand comparisons."
    yield ""
    yield "| noise | comparisons | " + " | ".join(RULES) + " |"
    yield "|---|---:|" + "---:|" * len(RULES)
    for shape, counts in data["shapes"].items():
        cells = [f"{1000 * counts[name] / counts['comparisons']:.2f}" for name in RULES]
        yield f"| {shape} | {counts['comparisons']:,} | " + " | ".join(cells) + " |"
    sums = {name: sum(c[name] for c in data["shapes"].values()) for name in RULES}
    yield f"| all | {total:,} | " + " | ".join(f"{1000 * sums[name] / total:.2f}" for name in RULES) + " |"
    yield ""
    yield f"{data['runs with an alarm']} of {data['runs']:,} runs of {A_RUN} series raised any alarm."
    yield ""


def real_table(data: Mapping[str, Any]) -> Iterator[str]:
    """False alarms and power on real samples, and what the samples look like."""
    comparisons = data["comparisons"]
    device = data.get("device")
    limits = GPU_LIMITS if device else CPU_LIMITS
    where = str(data.get("where", "On a CPU that other work shares:"))
    yield f"On {device['name']}, Triton {device['triton']}:" if device else where
    yield ""
    yield "| comparisons | how many | " + " | ".join(RULES) + " |"
    yield "|---|---:|" + "---:|" * len(RULES)
    for kind in dict.fromkeys(item["kind"] for item in comparisons):
        items = [item for item in comparisons if item["kind"] == kind]
        sides = [(plain(item["old"]), plain(item["new"])) for item in items]
        cells: list[str] = []
        for rule in RULES.values():
            hits = sum(rule(sides, limits))
            cells.append(f"{hits / len(items):.1%}" if kind.startswith("slowed") else f"{hits}")
        yield f"| {kind} | {len(items):,} | " + " | ".join(cells) + " |"
    yield ""
    yield from shapes_table(comparisons, limits)
    yield from slowed_table(comparisons, limits)


def plain(side: Sequence[Any]) -> list[list[float]]:
    return [batch["samples"] if isinstance(batch, dict) else batch for batch in side]


def shapes_table(comparisons: Sequence[Mapping[str, Any]], limits: Limits) -> Iterator[str]:
    """What the real samples of one version look like."""
    yield "| series | samples | median us | quartiles apart | skew | beyond 5 spreads | rank correlation | floor |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    alike = [item for item in comparisons if item["kind"].startswith("alike")]
    for name in dict.fromkeys(item["name"] for item in alike):
        items = [item for item in alike if item["name"] == name]
        samples = np.concatenate([flat(plain(item["old"])) for item in items])
        shape = shape_of(samples)
        least = limits is CPU_LIMITS
        ratios = [
            c.ratio for c in judge([log_ratios(plain(i["old"]), plain(i["new"]), least=least) for i in items])
        ]
        yield (
            f"| {name} | {samples.size:,} | {np.median(samples):.1f} | {shape['quartiles']:.2%} | "
            f"{shape['skew']:.2f} | {shape['tail']:.2%} | {shape['correlation']:.2f} | "
            f"{learned_floor(ratios):.2%} |"
        )
    yield ""


def slowed_table(comparisons: Sequence[Mapping[str, Any]], limits: Limits) -> Iterator[str]:
    """Of each slowed series: what was planted, what was found."""
    slowed = [item for item in comparisons if item["kind"].startswith("slowed")]
    if not slowed:
        return
    yield "| slowed series | runs | median us | planted | found | called SLOWER |"
    yield "|---|---:|---:|---:|---:|---:|"
    for name in dict.fromkeys(item["name"] for item in slowed):
        items = [item for item in slowed if item["name"] == name]
        least = limits is CPU_LIMITS
        pairs = [log_ratios(plain(i["old"]), plain(i["new"]), least=least) for i in items]
        found = [judge([pair], limits)[0] for pair in pairs]
        true = statistics.median(item["true"] for item in items)
        ratio = statistics.median(c.ratio for c in found)
        middle = float(np.median(np.concatenate([flat(plain(item["old"])) for item in items])))
        hits = sum(c.change is Change.SLOWER for c in found)
        yield f"| {name} | {len(items)} | {middle:.1f} | {true:.2%} | {ratio:.2%} | {hits} |"
    yield ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    made = commands.add_parser("synthetic")
    made.add_argument("--out", type=Path, required=True)
    made.add_argument("--comparisons", type=int, default=100_000)
    real = commands.add_parser("cpu")
    real.add_argument("--out", type=Path, required=True)
    real.add_argument("--one-process", type=int, default=3000)
    real.add_argument("--worker-sets", type=int, default=3, help="rounds of all series in fresh workers")
    real.add_argument("--slowed", type=int, default=70)
    fresh = commands.add_parser("workers")
    fresh.add_argument("--out", type=Path, required=True)
    fresh.add_argument("--seconds", type=float, default=600.0)
    fresh.add_argument("--jobs", type=int, default=1)
    shown = commands.add_parser("table")
    shown.add_argument("files", type=Path, nargs="+")
    shown.add_argument("--write", action="store_true", help="put the tables into docs/performance.md")
    given = parser.parse_args(arguments)
    if given.command == "synthetic":
        synthetic(given.out, given.comparisons)
    elif given.command == "cpu":
        cpu(given.out, given.one_process, given.worker_sets, given.slowed)
    elif given.command == "workers":
        workers(given.out, given.seconds, given.jobs)
    else:
        lines = list(table(given.files))
        print("\n".join(lines))
        if given.write:
            write(lines, "alarms")
    return 0


def write(lines: Sequence[str], name: str) -> None:
    """Put lines between the marks of this name in the documentation."""
    text = DOCS.read_text(encoding="utf-8")
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    DOCS.write_text("\n".join([before + begin, "", *lines, end + after]), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
