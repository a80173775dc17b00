"""What ``kvproof prove`` prints besides its table: instability over seeds, and what a change touched."""

from __future__ import annotations

from pathlib import Path

from rich import box
from rich.markup import escape
from rich.table import Table

from kvproof.harness.cli.campaign import Plan
from kvproof.harness.cli.errors import UsageError
from kvproof.harness.cli.systems import proof_subjects
from kvproof.harness.cli.terminal import output_console, progress_console


def print_stability(plan: Plan, seeds: int) -> int:
    """Prove everything with other seeds and print what differs. Returns the exit status."""
    from kvproof.harness.prove.campaign import pairs_of
    from kvproof.harness.prove.locked import Setting, default_jobs
    from kvproof.harness.prove.stability import reseeded
    from kvproof.harness.prove.theorems import theorem_subjects
    from kvproof.harness.solve.backends import installed

    theorems = theorem_subjects() if plan.proofs.theorems else []
    pairs = pairs_of([*proof_subjects(plan.systems, plan.subjects), *theorems])
    setting = Setting(plan.proofs.solvers or tuple(installed()), jobs=plan.proofs.jobs or default_jobs())
    with progress_console().status(f"proving with {seeds} seeds"):
        unstable = list(reseeded(pairs, setting, seeds))
    console = output_console()
    for item in unstable:
        kind = "[bold red]outcome differs[/]" if item.outcome else "[yellow]work differs[/]"
        console.print(f"{kind}: {escape(item.subject)}, {escape(item.statement)}: {escape(item.words)}")
    outcomes = sum(item.outcome for item in unstable)
    console.print(
        f"{len(pairs)} proofs with {seeds} seeds and orders of assertions each: {outcomes} change their outcome, "
        f"{len(unstable) - outcomes} their work by more than 20 times"
    )
    return 3 if outcomes else 0


def print_changes(plan: Plan, revision: str) -> int:
    """Print which layout facts and obligations changed since a revision. Returns the exit status."""
    from kvproof.harness.run.changes import RevisionError, changes_since

    console, touched = output_console(), 0
    try:
        for change in changes_since(revision, Path.cwd(), plan.subjects):
            if not (change.facts or change.obligations):
                continue
            touched += 1
            table = Table("fact or obligation", "before", "after", box=box.SIMPLE_HEAD, title=change.subject)
            for name, before, after in change.facts:
                table.add_row(escape(name), escape(before), escape(after))
            for name, count in change.obligations:
                table.add_row(f"statement {escape(name)}", "", f"{count} obligations differ")
            console.print(table)
    except RevisionError as error:
        raise UsageError(f"--diff: {error}") from error
    console.print(f"{touched} of {len(plan.subjects)} configurations have changed since {escape(revision)}")
    return 0
