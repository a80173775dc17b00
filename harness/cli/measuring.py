"""What ``kvproof bench`` does: measuring a version, showing it, keeping it."""

from __future__ import annotations

import json
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rich import box
from rich.table import Table

from kvproof.harness.bench.alternate import affordable, take_turns
from kvproof.harness.bench.cpu_series import cpu_series
from kvproof.harness.bench.suite import Request
from kvproof.harness.bench.versions import Version, measure, open_version
from kvproof.harness.cli.errors import UsageError
from kvproof.harness.cli.history_facts import resource_units
from kvproof.harness.cli.terminal import output_console
from kvproof.harness.cli.values import parse_budget, parse_integer, parse_output
from kvproof.harness.ir.target import TargetError, parse_targets
from kvproof.kernels.registry import all_kernels
from kvproof.reports.history.exchange import to_pytest_benchmark
from kvproof.reports.history.run import ALIKE, Counts, Missing, Run, Times
from kvproof.reports.history.store import open_history
from kvproof.reports.store import default_root, write_atomically
from kvproof.reports.verdicts.compare import fewest_pairs

KINDS = ("offline", "cpu", "gpu")


def have_gpu() -> tuple[bool, str]:
    """Whether a GPU is here, and what is, or why not."""
    from kvproof.harness.devices.registry import find_device

    found = [find_device(name).probe() for name in ("cuda", "hip")]
    here = next((item for item in found if item.available), None)
    return (True, here.detail) if here else (False, "; ".join(item.detail for item in found))


@contextmanager
def request_of(kind: str, kernels: Sequence[str] = (), **more: object) -> Iterator[Request]:
    """A request whose answer goes to a file that is gone afterwards. Binaries' listings are kept in the store."""
    with tempfile.TemporaryDirectory() as folder:
        kept = default_root() / "listings"
        kept.mkdir(parents=True, exist_ok=True)
        made = Request(kind, str(Path(folder) / "answer.json"), kernels=tuple(kernels), kept=str(kept.resolve()))
        yield replace(made, **more)  # pyright: ignore[reportArgumentType]


def run_bench(
    target: str,
    kinds: Sequence[str],
    kernels: Sequence[str],
    arch: str,
    cases: str,
    check: str,
    history: str | None,
    *,
    save: bool,
    benchmark_json: str | None,
    alike: float = 0.0,
) -> int:
    """Measure, print and keep; exit status 1 if a check failed, 3 if there is no number, else 0."""
    for kind in kinds:
        if kind not in KINDS:
            raise UsageError(f"--kind is {kind!r}; allowed: {', '.join(KINDS)}")
    unknown = [name for name in kernels if name not in all_kernels()]
    if unknown:
        raise UsageError(f"--kernel is {unknown[0]!r}; allowed: {', '.join(all_kernels())}")
    try:
        targets = tuple(str(one) for one in parse_targets(arch))
    except TargetError as error:
        raise UsageError(f"--arch: {error}") from None
    out = parse_output(benchmark_json, "--benchmark-json") if benchmark_json else None
    most, seconds = parse_integer(cases, "--cases", 0, 1000), parse_budget(check, "--check")
    gpu, detail = have_gpu()
    runs: list[Run] = []
    with tempfile.TemporaryDirectory() as scratch:
        version = open_version(target, Path(scratch))
        for kind in chosen_kinds(kinds, version, gpu=gpu):
            if kind == "gpu" and not gpu:
                print(f"NOT_RUN gpu: {detail}")
                continue
            with request_of(kind, kernels, targets=targets, cases=most, check_seconds=seconds) as request:
                runs.append(with_proofs(measure(version, request), kernels))
            if kind == "cpu" and alike:
                runs[-1] = with_itself(runs[-1], version, kernels, alike)
            show(runs[-1])
    if not kinds and not gpu:
        print(f"NOT_RUN gpu: {detail}")
    if save:
        for run in runs:
            print(f"run: {open_history(history).append(run)}")
    if out is not None:
        write_atomically(out, json.dumps(to_pytest_benchmark(runs), indent=1))
    if any(missing.status == "FAIL" for run in runs for missing in run.missing):
        return 1
    return 0 if any(run.times or run.counts for run in runs) else 3


def chosen_kinds(kinds: Sequence[str], version: Version, *, gpu: bool) -> list[str]:
    """The kinds that are measured: all that can be here unless some are named."""
    if kinds:
        return list(dict.fromkeys(kinds))
    own = version.target == "builtin"
    return ["offline", *(["cpu"] if own else []), *(["gpu"] if gpu else [])]


def with_proofs(run: Run, kernels: Sequence[str]) -> Run:
    """The run with the resource units of the proofs in the lock file, if it is of this checkout as it is."""
    if run.device != "offline" or run.target != "builtin" or kernels or run.commit != run.kvproof:
        return run
    counts = tuple(
        Counts(f"proofs {subject}", solver, {"resource units": units}, check="PASS")
        for solver, subjects in resource_units().items()
        for subject, units in subjects.items()
    )
    return replace(run, counts=(*run.counts, *counts))


def with_itself(run: Run, version: Version, kernels: Sequence[str], seconds: float) -> Run:
    """The run with comparisons of this version with itself, as the gate would make them of two."""
    begun = time.monotonic()
    wanted = [name for name in cpu_series() if not kernels or name.split(" ")[0] in kernels]
    chosen, without = affordable(version.source, wanted, seconds)
    seed = zlib.crc32(f"{run.commit} {run.started}".encode())
    left = seconds - (time.monotonic() - begun)
    turns = take_turns(version.source, version.source, chosen, seed, seconds=left)
    without |= turns.failed
    compared: list[Times] = []
    for name, paired in turns.paired.items():
        if len(paired.old) < fewest_pairs(1):
            without[name] = f"only {len(paired.old)} pairs of processes fitted into {seconds:.0f} s"
            continue
        sides = [side for pair in zip(paired.old, paired.new, strict=True) for side in pair]
        batches = tuple(tuple(round(sample, 4) for sample in side.samples) for side in sides)
        times = Times(name, batches, ALIKE)
        if times.fault:
            without[name] = times.fault
            continue
        compared.append(times)
    print(f"{len(compared)} series compared with themselves")
    for name, why in without.items():
        print(f"NOT_RUN {name} compared with itself: {why[:160]}")
    return replace(run, times=(*run.times, *compared))


def show(run: Run) -> None:
    """A run as tables."""
    console = output_console()
    console.print(f"{run.target} {run.commit[:12]} {run.title[:60]}: {run.device}", highlight=False)
    measured = [times for times in run.times if times.mode != ALIKE]
    if measured:
        table = Table(box=box.SIMPLE_HEAD)
        for name in ("series", "us", "quartiles apart", "samples", "mode", "correctness"):
            table.add_column(name, justify="left" if name in {"series", "mode", "correctness"} else "right")
        for times in measured:
            ordered = sorted(times.samples)
            spread = (ordered[(3 * len(ordered)) // 4] - ordered[len(ordered) // 4]) / times.median
            settled = "" if times.settled else " (not settled)"
            table.add_row(
                times.name,
                f"{times.median:.2f}",
                f"{spread:.1%}",
                str(len(ordered)),
                times.mode + settled,
                times.check,
            )
        console.print(table)
    compiled = [counts for counts in run.counts if "instructions" in counts.values]
    if compiled:
        table = Table(box=box.SIMPLE_HEAD)
        metrics = ("instructions", "registers", "vgprs", "spill instructions", "shared bytes", "loads", "stores")
        for name in ("series", "for", *metrics, "correctness"):
            table.add_column(name, justify="right" if name in metrics else "left")
        for counts in compiled:
            cells = (str(counts.values[m]) if m in counts.values else "" for m in metrics)
            table.add_row(counts.name, counts.on, *cells, counts.check)
        console.print(table)
    for missing in _grouped(run.missing):
        console.print(missing, highlight=False, markup=False)


def _grouped(missing: Sequence[Missing]) -> list[str]:
    """Lines of what has no number: one a reason."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for item in missing:
        by_reason.setdefault((item.status, item.reason), []).append(item.name)
    return [
        f"{status} {names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {reason}"
        for (status, reason), names in by_reason.items()
    ]
