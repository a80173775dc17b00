"""``kvproof ir check --target``: a target's kernels as compiled IR, without a GPU."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import kvproof
from kvproof.harness.cli.errors import UsageError
from kvproof.harness.cli.ir_kernels import choose_targets, needs_triton
from kvproof.harness.cli.tables import STYLES
from kvproof.harness.cli.terminal import output_console
from kvproof.harness.cli.values import parse_output
from kvproof.reports.sarif import SarifResult, sarif_text
from kvproof.reports.store import Store, write_atomically
from kvproof.reports.verdict import Status

CASES = 25
"""Launches of each contract: enough to meet the specialisations that a launcher chooses between."""
SECONDS = 8.0


def run_target_check(
    target: str, names: Sequence[str], arch: str, *, sarif: str | None, json_file: str | None
) -> int:
    """Check a target's compiled kernels and print what was found; returns the exit status.

    With contracts' names, it is the kernels that those contracts' cases launch.
    """
    archs = [str(one) for one in choose_targets(arch)]
    outputs = {
        option: parse_output(text, option) for option, text in (("--sarif", sarif), ("--json", json_file)) if text
    }
    needs_triton()
    from kvproof.harness.run.target_campaign import TargetCampaign
    from kvproof.harness.targets.device import IsolatedDevice
    from kvproof.harness.targets.revisions import open_target

    store, console = Store(), output_console()
    with tempfile.TemporaryDirectory(prefix="kvproof-") as scratch:
        opened = open_target(target, Path(scratch))
        # A worker knows what it has launched until it dies, and what should not be passed may kill it.
        device, beyond = IsolatedDevice(opened, "ir"), IsolatedDevice(opened, "ir")
        try:
            found = device.probe()
            if not found.available:
                raise UsageError(f"--target is {target!r}: {found.detail}")
            unknown = [name for name in names if name not in device.offered()]
            if unknown:
                raise UsageError(f"contract {unknown[0]!r} is not offered; allowed: {', '.join(device.offered())}")
            campaign = TargetCampaign(
                device,
                budget_seconds=SECONDS * len(names or device.offered()),
                contracts=names or tuple(device.offered()),
                case_target=CASES,
                shrink_seconds=2.0,
                beyond=beyond,
            )
            reports = list(campaign.run(store.save_finding))
            deaths = list(device.worker.deaths)
            wanted = {"archs": archs, "kind": "launched" if names and not deaths else "all"}
            rows: list[Mapping[str, Any]] = device.worker.ask("offsets", wanted, 600)
        finally:
            device.close()
            beyond.close()
    _print_accesses(reports, console)
    for death in deaths:
        console.print(
            f"[yellow]the worker died[/] ({escape(death)}): what it had launched before is not known any more"
        )
    _print_offsets(rows, console)
    if "--sarif" in outputs:
        write_atomically(outputs["--sarif"], sarif_text(_sarif(rows), kvproof.__version__))
    if "--json" in outputs:
        write_atomically(outputs["--json"], json.dumps(rows, indent=1) + "\n")
    called = [report.runs[0].result.verdict.status for report in reports if report.runs]
    if any(row["offsets"] for row in rows) or Status.FAIL in called:
        return 1
    return 3 if any(row["problem"] for row in rows) else 0


def _print_accesses(reports: Sequence[Any], console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    for head in ("contract", "as called", "with tolerated input"):
        table.add_column(head)
    for report in reports:
        cells = []
        for run in report.runs:
            result = run.result
            faults = [group.cause for group in run.groups]
            status = f"[{STYLES[result.verdict.status]}]{result.verdict.status}[/], {result.cases} launches"
            cells.append("\n".join([status, *(escape(fault[:70]) for fault in faults)]))
        table.add_row(escape(report.contract), *cells)
    console.print(table)


def _print_offsets(rows: Sequence[Mapping[str, Any]], console: Console) -> None:
    """Each place once, with the GPUs that it was compiled for."""
    places: dict[tuple[Any, ...], list[str]] = {}
    for row in rows:
        for o in row["offsets"]:
            key = (o["file"], o["line"], row["kernel"], o["access"], o["argument"], o["factors"])
            places.setdefault(key, []).append(row["arch"])
    console.print("element offsets computed in 32 bits:")
    for (file, line, kernel, access, argument, factors), archs in sorted(places.items()):
        where = ", ".join(dict.fromkeys(archs))
        words = f"  {file}:{line}: {kernel}: {access} through {argument or 'a pointer'}: {factors} [{where}]"
        console.print(escape(words), soft_wrap=True)
    for row in rows:
        if row["problem"]:
            console.print(
                f"[yellow]UNSUPPORTED[/] {escape(row['kernel'])} for {row['arch']}: {escape(row['problem'])}"
            )
    kernels = {row["kernel"] for row in rows}
    clean = {row["kernel"] for row in rows if not row["problem"]} - {key[2] for key in places}
    launched = {row["kernel"] for row in rows if row["launched"]}
    wide = ", ".join(sorted(clean)) or "none"
    console.print(
        f"{len(kernels)} kernels ({len(launched)} compiled as a case launched them, the others by parameter "
        f"names): {len(places)} places in 32 bits; all offsets wide in {len(clean)}: {wide}"
    )


def _sarif(rows: Sequence[Mapping[str, Any]]) -> list[SarifResult]:
    found = [
        SarifResult(
            "no wrap",
            Status.FAIL,
            f"{row['kernel']}: {o['access']} through {o['argument']}: {o['factors']} is computed in 32 bits",
            ((o["file"], o["line"]),),
        )
        for row in rows
        for o in row["offsets"]
    ]
    return list(dict.fromkeys(found))
