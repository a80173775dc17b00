"""What ``kvproof ir`` does: choosing kernels, asking the checker, showing what it found."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import kvproof
from kvproof.harness.cli.errors import UsageError
from kvproof.harness.cli.ir_records import keep_record
from kvproof.harness.cli.tables import STYLES
from kvproof.harness.cli.terminal import output_console, progress_console
from kvproof.harness.cli.values import parse_integer
from kvproof.harness.ir.target import Target, TargetError, parse_targets
from kvproof.harness.prove.kernels.cache import Cache, tree_key
from kvproof.harness.prove.kernels.rows import Fault, Row, rows_json
from kvproof.models.contract import TensorValue
from kvproof.models.deepseek_v4 import CONFIGS, ModelConfig
from kvproof.reports import environment
from kvproof.reports.sarif import SarifResult, sarif_text
from kvproof.reports.store import Store, write_atomically
from kvproof.reports.verdict import Status, combine, exit_status

if TYPE_CHECKING:
    from kvproof.harness.prove.kernels.check import Failure
    from kvproof.harness.prove.kernels.launch import Setting
    from kvproof.kernels.registry import Kernel

SHORT = {
    "in bounds": "in bounds",
    "no sentinel in an address": "sentinel",
    "no wrap": "no wrap",
    "one writer a cell": "one writer",
    "addresses of the contract": "addresses",
}
"""Column heads of the properties."""

LONG = (
    "split_attention",
    "attention_decode",
    "attention_prefill",
    "window_write_planes",
    "fused_compress",
    "prefill_indices",
)
"""Kernels whose check takes longest, the longest first."""


def choose_targets(text: str) -> tuple[Target, ...]:
    """The targets of a list.

    Raises:
        UsageError: one that is no GPU.
    """
    try:
        return parse_targets(text)
    except TargetError as error:
        raise UsageError(f"--arch: {error}") from None


def choose_subject(name: str) -> ModelConfig:
    """A configuration by name.

    Raises:
        UsageError: no such configuration.
    """
    if name not in CONFIGS:
        raise UsageError(f"--config is {name!r}; allowed: {', '.join(CONFIGS)}")
    return CONFIGS[name]


def choose_kernels(names: Sequence[str]) -> Mapping[str, Kernel]:
    """Kernels by name; all if none is named.

    Raises:
        UsageError: no such kernel.
    """
    from kvproof.kernels.registry import all_kernels

    known = all_kernels()
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UsageError(f"kernel {unknown[0]!r} is not known; allowed: {', '.join(known)}")
    return {name: known[name] for name in names} if names else known


def needs_triton() -> None:
    """Refuse where kernels cannot be compiled.

    Raises:
        UsageError: torch or triton is not installed.
    """
    absent = [name for name in ("torch", "triton") if importlib.util.find_spec(name) is None]
    if absent:
        raise UsageError(f"compiling kernels needs {' and '.join(absent)}; see kvproof doctor")


# ---- check ----------------------------------------------------------------------------


def run_check(
    names: Sequence[str],
    arch: str,
    config: str,
    *,
    everything: bool,
    jobs: str | None,
    sarif: str | None,
    json_file: str | None,
) -> int:
    """Check kernels and print what was found; returns the exit status."""
    start, started = time.perf_counter(), environment.utc_now()
    targets, subject = choose_targets(arch), choose_subject(config)
    cache = Cache()
    # Before anything is imported that is slow: if nothing has changed, nothing need be.
    key = tree_key("check", ",".join(map(str, targets)), config, ",".join(names))
    rows = None if everything else cache.get(key)
    known = rows is not None
    if rows is None:
        needs_triton()
        workers = parse_integer(jobs, "--jobs", 1, 1024) if jobs is not None else os.cpu_count() or 1
        rows = _check(names, targets, subject, None if everything else cache, workers)
        cache.put(key, rows)
    console = output_console()
    _print_rows(rows, console)
    seconds = time.perf_counter() - start
    asked = sum(row.questions for row in rows)
    how = "from earlier results, since nothing has changed" if known else f"{asked:,} questions"
    verdict = combine(row.verdict for row in rows)
    count = len({row.kernel for row in rows})
    console.print(f"{verdict.status}: {count} kernels, {len(targets)} targets, {how}, {seconds:.1f} s")
    keep_record(rows, ("ir", "check", *names, "--arch", arch, "--config", config), started, seconds)
    if sarif is not None:
        write_atomically(Path(sarif), sarif_text(_sarif(rows), kvproof.__version__))
    if json_file is not None:
        import json

        write_atomically(Path(json_file), json.dumps(rows_json(rows), indent=1) + "\n")
    return exit_status(row.verdict for row in rows)


def _check(
    names: Sequence[str], targets: Sequence[Target], subject: ModelConfig, cache: Cache | None, jobs: int
) -> list[Row]:
    progress = progress_console()
    rows: list[Row] = []
    chosen = list(choose_kernels(names))
    workers = min(jobs, len(chosen))
    # Started anew: torch's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=workers, mp_context=context) as pool:
        # What takes longest begins first, so that no core waits for it at the end.
        order = sorted(chosen, key=lambda name: LONG.index(name) if name in LONG else len(LONG))
        asked = {name: pool.submit(_check_one, name, targets, subject, cache) for name in order}
        for number, name in enumerate(chosen, 1):
            rows += asked[name].result()
            if progress.is_terminal:
                progress.print(f"[dim]{number}/{len(chosen)} {name}[/dim]")
    return rows


def _check_one(name: str, targets: Sequence[Target], subject: ModelConfig, cache: Cache | None) -> list[Row]:
    """One kernel, in a process of its own."""
    from kvproof.harness.prove.kernels.campaign import check_one

    return check_one(choose_kernels([name])[name], targets, subject, cache, _keep)


def _keep(kernel: Kernel, setting: Setting, failure: Failure) -> None:
    """Keep a counterexample as a finding that ``kvproof replay`` runs again."""
    from kvproof.harness.check.codec import case_json
    from kvproof.properties.strategies.cases import Case
    from kvproof.reports.finding import Finding

    if failure.status is not Status.FAIL or failure.witness is None:
        return
    names = [argument.name for argument in kernel.contract.arguments]
    values = {name: failure.witness.values.get(name) for name in names}
    if sum(v.storage.size for v in values.values() if isinstance(v, TensorValue)) > 1 << 16:
        return  # too large for a file that a person may read
    try:
        launch = case_json(Case(values))
    except TypeError:
        return
    finding = Finding(
        engine="kernel",
        property_name=kernel.name,
        words=str(failure.found.property),
        subject=setting.name,
        case={"kernel": kernel.name, "launch": launch},
        message=str(failure),
        got=failure.seen,
        device="ir",
        commit=environment.commit(),
    )
    Store().save_finding(finding)


def _print_rows(rows: Sequence[Row], console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("kernel")
    table.add_column("target")
    for head in SHORT.values():
        table.add_column(head)
    table.add_column("questions", justify="right")
    table.add_column("seconds", justify="right")
    for (kernel, target), group in _grouped(rows).items():
        cells: list[str] = []
        for name in SHORT:
            of = [row.verdict for row in group if row.prop == name]
            status = combine(of).status
            cells.append(f"[{STYLES[status]}]{status}[/]")
        asked, seconds = sum(r.questions for r in group), sum(r.seconds for r in group)
        table.add_row(escape(kernel), target, *cells, f"{asked}", f"{seconds:.2f}")
    console.print(table)
    for words in dict.fromkeys(
        f"{r.kernel}: {bound}" for r in rows for bound in r.bounds if "safe up to" in bound
    ):
        console.print(escape(words))
    for row in rows:
        if row.status in {Status.FAIL, Status.UNKNOWN, Status.UNSUPPORTED}:
            style = STYLES[Status(row.status)]
            console.print(f"[{style}]{row.status}[/] {row.kernel} for {row.target}: {row.prop}")
            for fault in row.faults or ():
                console.print(f"  {escape(fault.words)}")
            if not row.faults:
                console.print(f"  {escape(row.reason)}")


def _grouped(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row.kernel, row.target), []).append(row)
    return found


def _places(fault: Fault) -> tuple[tuple[str, int], ...]:
    return tuple((place.file, place.line) for place in fault.places)


def _sarif(rows: Sequence[Row]) -> list[SarifResult]:
    results = [
        SarifResult(
            row.prop,
            fault.status,
            f"{row.kernel}: {fault.words}",
            tuple((p.file, p.line) for p in fault.places),
        )
        for row in rows
        for fault in row.faults
    ]
    return list(dict.fromkeys(results))


# ---- run --------------------------------------------------------------------------------


def run_cases(name: str, cases: str, seed: str, arch: str) -> int:
    """Run drawn launches on the executor; returns the exit status."""
    count = parse_integer(cases, "--cases", 1, 1_000_000)
    number = parse_integer(seed, "--seed", 0, 2**32 - 1)
    (target, *others) = choose_targets(arch)
    if others:
        raise UsageError(f"--arch is {arch!r}; kvproof ir run takes one GPU")
    needs_triton()
    from kvproof.harness.devices.ir import IrDevice
    from kvproof.harness.run.fuzz import fuzz_kernel

    kernel = choose_kernels([name])[name]
    result = fuzz_kernel(kernel, IrDevice(target), budget_seconds=3600, seed=number, case_target=count)
    console = output_console()
    rate = result.cases / result.seconds if result.seconds else 0
    console.print(f"{name} on ir ({target}): {result.verdict.status}, {result.cases} cases, {rate:.0f} a second")
    for event, times in sorted(result.events.items()):
        console.print(f"  {escape(event)}: {times}")
    if result.verdict.reason:
        console.print(escape(result.verdict.reason))
    for finding in result.findings:
        path = Store().save_finding(finding)
        console.print(escape(f"{finding.message}\n  kvproof replay {path.stem}"))
    return exit_status([result.verdict])


# ---- diff -------------------------------------------------------------------------------


def run_diff(revision: str, names: Sequence[str], arch: str) -> int:
    """Compare kernels' IR with another revision's; returns the exit status."""
    (target, *_) = choose_targets(arch)
    needs_triton()
    from kvproof.harness.cli.ir_diff import differences

    console = output_console()
    changed = 0
    for kernel, lines in differences(revision, choose_kernels(names), target):
        if lines:
            changed += 1
            console.print(f"[bold]{escape(kernel)}[/bold]")
            for line in lines:
                console.print(f"  {escape(line)}")
    console.print(f"{changed} kernels differ from {escape(revision)} for {target}")
    return 0
