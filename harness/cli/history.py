"""What ``kvproof sweep`` and ``kvproof compare`` do on the command line."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kvproof.harness.cli.errors import UsageError
from kvproof.harness.cli.targets import target_device
from kvproof.harness.cli.terminal import output_console, progress_console
from kvproof.harness.cli.values import parse_budget, parse_integer, parse_output, parse_seed
from kvproof.reports.store import Store, write_atomically

if TYPE_CHECKING:
    from kvproof.harness.run.target_history import Depth, Snapshot


def _depth(device: str, budget: str, cases: str, seed: str) -> Depth:
    from kvproof.harness.run.target_history import Depth

    count = parse_integer(cases, "--cases", 1, 1_000_000)
    return Depth(target_device(device), parse_budget(budget), count, parse_seed(seed))


def _repository(target: str) -> tuple[str, Path, str]:
    """(profile, repository, revision) of a target with a repository.

    Raises:
        UsageError: another kind of target.
    """
    from kvproof.harness.targets.spec import parse_target

    kind, path, revision = parse_target(target)
    if not path or not Path(path).is_dir():
        raise UsageError(f"--target is {target!r}; allowed: NAME:REPO or NAME:REPO@REV with a repository's folder")
    return kind, Path(path), revision or "HEAD"


def run_sweep(
    target: str,
    since: str,
    device: str,
    budget: str,
    cases: str,
    seed: str,
    json_file: str | None,
    *,
    resume: bool = False,
) -> int:
    """Sweep and print; returns the exit status, 0 whatever was found.

    Raises:
        UsageError: a value is wrong, or there is nothing to resume from.
    """
    from kvproof.harness.cli.sweep_files import read_snapshots, snapshots_text
    from kvproof.harness.run.target_history import sweep

    output = parse_output(json_file, "--json") if json_file is not None else None
    kind, repository, until = _repository(target)
    depth, store, progress = _depth(device, budget, cases, seed), Store(), progress_console()
    if resume and output is None:
        raise UsageError("--resume needs --json FILE, which it goes on with")
    done = read_snapshots(output, kind, depth, store) if resume and output is not None and output.exists() else {}
    snapshots: list[Snapshot] = []
    # A long sweep that is broken off has written what it had found.
    with contextlib.suppress(KeyboardInterrupt), tempfile.TemporaryDirectory(prefix="kvproof-") as scratch:
        for snapshot in sweep(kind, repository, since, until, depth, store.save_finding, Path(scratch), done):
            snapshots.append(snapshot)
            progress.print(f"[dim]{snapshot.commit.revision[:9]} {escape(snapshot.commit.title)}[/dim]")
            if output is not None:
                write_atomically(output, snapshots_text(snapshots, kind, depth))
    console = output_console()
    if not snapshots:
        console.print(f"no commit since {escape(since)} changes anything relevant")
        return 0
    _print_table(snapshots, console)
    _print_changes(snapshots, console)
    return 0


def _print_table(snapshots: Sequence[Snapshot], console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    for head in ("commit", "date", "layout era"):
        table.add_column(head)
    for head in ("mapped", "not offered", "causes", "in 32 bits", "not compiled"):
        table.add_column(head, justify="right")
    table.add_column("title")
    for s in snapshots:
        missing = len(s.reports) - len(s.mapped)
        counts = (len(s.mapped), missing, len(s.causes), len(s.narrow), len(s.problems))
        title = s.commit.title if not s.failed else f"{s.commit.title}: {s.failed}"
        era = s.era or "before the unified row space"
        table.add_row(s.commit.revision[:9], s.commit.date, era, *map(str, counts), escape(title[:48]))
    console.print(table)


def _print_changes(snapshots: Sequence[Snapshot], console: Console) -> None:
    """What appears and goes from one commit to the next."""
    for before, after in itertools.pairwise(snapshots):
        lines = changes(before, after)
        if lines:
            console.print(f"[bold]{after.commit.revision[:9]}[/bold] {escape(after.commit.title)}")
            for line in lines:
                console.print(f"  {escape(line)}")


def changes(before: Snapshot, after: Snapshot) -> list[str]:
    """How a commit differs from the one before, a line each.

    A cause of a contract that only one of them offers is told with the offer, not as one that appears or goes.
    """
    lines: list[str] = []
    for name in dict.fromkeys([*before.reports, *after.reports]):
        was, is_now = name in before.mapped, name in after.mapped
        if was != is_now:
            report = (after if was else before).reports.get(name)
            reason = report.reason if report else "unknown"
            lines.append(
                f"{name}: {'now' if is_now else 'no longer'} mapped ({'before' if is_now else 'now'}: {reason})"
            )
    for gone, side, other in (("appears", after, before), ("goes", before, after)):
        for (name, cause), finding in side.causes.items():
            if (name, cause) not in other.causes:
                also = "" if name in other.mapped else " (the contract is mapped at this side alone)"
                lines.append(f"{name}: {gone}: {cause}{also}; kvproof replay {finding.id}")
    for gone, side, other in (("now", after, before), ("no longer", before, after)):
        for (kernel, argument, factors), place in side.narrow.items():
            if (kernel, argument, factors) not in other.narrow and kernel in other.ir:
                lines.append(f"{kernel}: {gone} in 32 bits: {argument}, {factors} ({place})")
    return lines


def run_compare(first: str, second: str, device: str, budget: str, cases: str, seed: str) -> int:
    """Compare and print; returns the exit status, 0 whatever differs."""
    from kvproof.harness.run.target_history import compare

    kind, one, before = _repository(first)
    other, two, after = _repository(second)
    if kind != other:
        raise UsageError(f"targets are of {kind} and {other}; allowed: two commits of one project")
    console, store, count = output_console(), Store(), 0
    for difference in compare(
        kind, ((one, before), (two, after)), _depth(device, budget, cases, seed), store.save_finding
    ):
        count += 1
        again = f"\n    kvproof replay {difference.finding.id}" if difference.finding else ""
        console.print(f"[bold]{escape(difference.subject)}[/bold]: {escape(difference.words)}{again}")
    console.print(f"{count} differences between {escape(before)} and {escape(after)}")
    return 0
