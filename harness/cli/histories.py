"""What ``kvproof history`` and ``kvproof regressions`` do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.table import Table

from kvproof.harness.cli.errors import UsageError
from kvproof.harness.cli.policy import Policy
from kvproof.harness.cli.terminal import output_console
from kvproof.harness.cli.values import parse_integer, parse_output
from kvproof.reports.errors import DamagedReportError
from kvproof.reports.history.exchange import from_pytest_benchmark
from kvproof.reports.history.series import timelines
from kvproof.reports.history.store import export_runs, import_runs, open_history, prune
from kvproof.reports.verdicts.regressions import headline, regressions, worse

MOST_LINES = 40


def run_list(history: str | None) -> int:
    """Print the runs."""
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("started", "target", "commit", "device", "times", "counts", "not measured", "title"):
        table.add_column(name, justify="right" if name in {"times", "counts", "not measured"} else "left")
    count = 0
    for run in open_history(history).runs():
        count += 1
        numbers = (str(len(items)) for items in (run.times, run.counts, run.missing))
        table.add_row(run.started, run.target, run.commit[:12], run.device, *numbers, run.title[:50])
    output_console().print(table)
    print(f"{count} runs")
    return 0


def run_export(file: str, history: str | None) -> int:
    """Write all runs to one file."""
    count = export_runs(open_history(history), parse_output(file, "FILE"))
    print(f"{count} runs to {file}")
    return 0


def run_import(files: Sequence[str], history: str | None, target: str, device: str) -> int:
    """Add runs; exit status 1 if something was none."""
    for name in files:
        if not Path(name).exists():
            raise UsageError(f"FILE is {name!r}; allowed: a file or a folder that exists")
    store = open_history(history)
    count, wrong = 0, list[str]()
    for path in map(Path, files):
        foreign = _pytest_benchmark(path)
        if foreign is None:
            added, faults = import_runs(store, path)
            count, wrong = count + added, [*wrong, *faults]
            continue
        try:
            run = from_pytest_benchmark(foreign, target, device)
            store.append(run)
        except DamagedReportError as error:
            wrong.append(f"{path}: {error}")
            continue
        count += 1
        wrong += [f"{path}: {missing.name}: {missing.reason}" for missing in run.missing]
    print(f"{count} runs added")
    for fault in wrong:
        print(f"not added: {fault}")
    return 1 if wrong else 0


def _pytest_benchmark(path: Path) -> dict[str, object] | None:
    if path.is_dir():
        return None
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError):
        # Whoever reads it as runs says what is wrong with it.
        return None
    return data if isinstance(data, dict) and "benchmarks" in data and "machine_info" in data else None


def run_prune(keep: str, history: str | None) -> int:
    """Forget all but the newest runs."""
    gone = prune(open_history(history), parse_integer(keep, "--keep", 1, 10**6))
    print(f"{len(gone)} runs forgotten")
    return 0


def run_regressions(history: str | None, last: str, target: str | None, policy: Policy) -> int:
    """Print what became worse; exit status 1 if something did, 3 if there is nothing to judge."""
    window = parse_integer(last, "--last", 1, 10**6)
    lines = timelines(open_history(history).runs(), policy.relevance)
    lines = [line for line in lines if target in {None, line.target}]
    found = False
    for line in lines:
        steps = regressions(line, window)
        print(headline(line, steps, window))
        slower = worse(steps)
        found = found or bool(slower)
        for item in slower[:MOST_LINES]:
            print(f"  {item.words}")
            print(f"    {item.bisect}")
        if len(slower) > MOST_LINES:
            print(f"  and {len(slower) - MOST_LINES} more")
    if not lines:
        print("nothing was measured: kvproof bench --save")
        return 3
    return 1 if found else 0
