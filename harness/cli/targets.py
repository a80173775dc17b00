"""What ``--target`` does on the command line: opening targets, running their contracts, showing what was found."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kvproof.harness.cli.errors import UsageError
from kvproof.harness.cli.subjects import LaunchOptions, load_subject
from kvproof.harness.cli.tables import STYLES
from kvproof.harness.cli.terminal import output_console, progress_console
from kvproof.harness.cli.values import parse_budget, parse_output, parse_seed
from kvproof.reports.codec import record_text
from kvproof.reports.environment import utc_now
from kvproof.reports.junit import junit_xml
from kvproof.reports.result import Result
from kvproof.reports.store import Store, write_atomically
from kvproof.reports.verdict import combine, exit_status

if TYPE_CHECKING:
    from kvproof.harness.run.target_campaign import ContractReport
    from kvproof.harness.targets.device import IsolatedDevice

DEVICES = ("cuda", "hip", "ir", "interpret")


def target_device(wanted: str) -> str:
    """The device of a ``--device`` value: a target runs on one.

    Raises:
        UsageError: no device has that name.
    """
    if wanted in DEVICES:
        return wanted
    if wanted != "auto":
        raise UsageError(f"--device is {wanted!r}; with --target allowed: auto, {', '.join(DEVICES)}")
    from kvproof.harness.devices.registry import GPUS, find_device

    return next((name for name in GPUS if find_device(name).probe().available), "ir")


def open_device(target: str, device: str, scratch: Path) -> IsolatedDevice:
    """A worker for a ``--target`` value.

    Raises:
        LayoutError: no such target, folder or revision.
    """
    from kvproof.harness.targets.device import IsolatedDevice
    from kvproof.harness.targets.revisions import open_target

    return IsolatedDevice(open_target(target, scratch), target_device(device))


@dataclass(frozen=True)
class Run:
    """The options of a run of a target, as text.

    Attributes:
        command: subcommand.
        target, device, budget, seed: option values.
        contracts: only these; empty means all.
        configs: configuration whose layout the cases have, at most one.
        json_file, junit_file: files to write.
    """

    command: str
    target: str
    device: str
    budget: str
    seed: str
    contracts: Sequence[str] = ()
    configs: Sequence[str] = ()
    json_file: str | None = None
    junit_file: str | None = None


def run_target(run: Run) -> int:
    """Check a target's contracts; returns the exit status."""
    from kvproof.harness.run.target_campaign import TargetCampaign
    from kvproof.harness.targets.contracts import all_properties

    given = ((run.json_file, "--json"), (run.junit_file, "--junit"))
    outputs = [(parse_output(text, option), option) for text, option in given if text is not None]
    unknown = [name for name in run.contracts if name not in all_properties()]
    if unknown:
        raise UsageError(f"--contract is {unknown[0]!r}; allowed: {', '.join(all_properties())}")
    if len(run.configs) > 1:
        raise UsageError("--config may be given once with --target")
    subject = load_subject(run.configs[0], LaunchOptions()) if run.configs else None
    store, progress, begun, started = Store(), progress_console(), time.monotonic(), utc_now()
    with tempfile.TemporaryDirectory(prefix="kvproof-") as scratch:
        worker = open_device(run.target, run.device, Path(scratch))
        budget, seed = parse_budget(run.budget), parse_seed(run.seed)
        campaign = TargetCampaign(worker, budget, seed, tuple(run.contracts), subject)
        complete, hosts = False, list[Result]()
        try:
            for report in campaign.run(store.save_finding):
                if progress.is_terminal:
                    progress.print(f"[dim]{report.contract}[/dim]")
            hosts = [] if run.contracts else host_results(worker, budget / 10, seed, store)
            complete = True
        except KeyboardInterrupt:
            pass
        finally:
            record = campaign.record([run.command, "--target", run.target], started, begun, complete=complete)
            record = replace(record, results=(*record.results, *hosts))
            path = store.append_record(record)
            worker.close()
        console = output_console()
        print_reports(campaign.reports, console)
        for result in hosts:
            reason = f": {escape(result.verdict.reason)}" if result.verdict.reason else ""
            status = f"[{STYLES[result.verdict.status]}]{result.verdict.status}[/]"
            console.print(f"host module, {result.property_name}: {status}, {result.cases} cases{reason}")
        print_deaths(worker, console)
    print(f"record: {path}")
    for file, option in outputs:
        write_atomically(file, record_text(record) if option == "--json" else junit_xml(record))
    return exit_status(result.verdict for result in record.results)


def host_results(worker: IsolatedDevice, seconds: float, seed: int, store: Store) -> list[Result]:
    """The target's host modules against their contracts."""
    from kvproof.harness.run.host_modules import HOST_CONTRACTS, check_host

    if not worker.probe().available:
        return []  # said with the contracts
    profile = worker.target.profile()
    wanted = [c for name, c in HOST_CONTRACTS.items() if profile is not None and name in profile.host]
    results = [check_host(c, worker, seconds=max(seconds, 3.0) / len(wanted), seed=seed) for c in wanted]
    for result in results:
        for finding in result.findings:
            store.save_finding(finding)
    return results


def print_reports(reports: Sequence[ContractReport], console: Console) -> None:
    """A table of contracts, the findings by cause, and what was not checked."""
    table = Table(box=box.SIMPLE_HEAD)
    for head in ("contract", "function"):
        table.add_column(head)
    for head in ("as called", "cases", "with tolerated input", "cases", "causes", "not taken"):
        table.add_column(head, justify="left" if "cal" in head or "with" in head else "right")
    for report in reports:
        if not report.runs:
            continue
        called, beyond = (run.result for run in report.runs)
        causes = sum(len(run.groups) for run in report.runs)
        left = sum(sum(run.left_out.values()) for run in report.runs)
        cells = [f"[{STYLES[result.verdict.status]}]{result.verdict.status}[/]" for result in (called, beyond)]
        function = report.function.rsplit(".", 1)[-1]
        row = (cells[0], f"{called.cases}", cells[1], f"{beyond.cases}", f"{causes}", f"{left}")
        table.add_row(escape(report.contract), escape(function), *row)
    console.print(table)
    for report in reports:
        _print_report(report, console)
    missing = [report for report in reports if not report.runs]
    for reason in dict.fromkeys(report.reason for report in missing):
        names = ", ".join(report.contract for report in missing if report.reason == reason)
        console.print(f"[yellow]not checked[/] {escape(names)}: {escape(reason)}")
    statuses = combine(result.verdict for report in reports for result in report.results).status
    ran = sum(result.cases for report in reports for result in report.results)
    console.print(
        f"{statuses}: {len(reports) - len(missing)} contracts checked, {len(missing)} not, {ran:,} cases; "
        f"{sum(len(run.groups) for r in reports for run in r.runs)} causes"
    )


def _print_report(report: ContractReport, console: Console) -> None:
    """The findings of one contract, and what of it was not taken."""
    unused: Counter[str] = Counter()
    for run in report.runs:
        unused.update(run.left_out)
        for group in run.groups:
            head = f"{report.contract}, {run.result.subject}, {group.cases} cases"
            console.print(f"[bold red]{escape(head)}[/]: {escape(group.finding.message)}")
            if group.finding.expected:
                console.print(f"  expected {escape(group.finding.expected)}; got {escape(group.finding.got)}")
            console.print(f"  again: kvproof replay {group.finding.id}")
    for note in report.notes:
        console.print(f"{escape(report.contract)}: an older signature: {escape(note)}")
    for words, count in unused.items():
        console.print(f"{escape(report.contract)}: {count} cases not taken: {escape(words)}")


def print_deaths(worker: IsolatedDevice, console: Console) -> None:
    """Which device it was, and how often the worker had to be started again."""
    console.print(escape(f"target {worker.target.label} on {worker.name}"))
    deaths = worker.worker.deaths
    if deaths:
        console.print(f"the worker died {len(deaths)} times:")
        for death in dict.fromkeys(deaths):
            console.print(f"  {deaths.count(death)} x {escape(death)}")


def leave(status: int) -> None:
    """End a command.

    Raises:
        typer.Exit: always.
    """
    raise typer.Exit(status)
