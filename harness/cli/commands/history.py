"""``kvproof history``: the stored runs."""

from __future__ import annotations

from typing import Annotated

import typer

from kvproof.harness.cli.commands.report import History
from kvproof.harness.cli.registry import command


@command("history list")
def listed(history: History = None) -> None:
    """List the stored runs, the oldest first.

    \b
    Examples:
      kvproof history list
      kvproof history list --history git:kvproof-history
    """
    from kvproof.harness.cli.histories import run_list

    raise typer.Exit(run_list(history))


@command("history export")
def export(
    file: Annotated[str, typer.Argument(metavar="FILE", help="File to write: a run a line.")],
    history: History = None,
) -> None:
    """Write all runs to one file.

    \b
    Examples:
      kvproof history export runs.jsonl
    """
    from kvproof.harness.cli.histories import run_export

    raise typer.Exit(run_export(file, history))


@command("history import")
def imported(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Exported files, folders of them, or pytest-benchmark JSON."),
    ],
    history: History = None,
    target: Annotated[
        str, typer.Option("--target", metavar="NAME", help="Whose code a pytest-benchmark file measured.")
    ] = "builtin",
    device: Annotated[
        str, typer.Option("--device", metavar="NAME", help="What a pytest-benchmark file was measured on.")
    ] = "cpu",
) -> None:
    """Add runs that were made elsewhere. What is no run is named, and the rest is added.

    Exit status: 0 everything was added, 1 something was not and is named, 2 a file does not exist (nothing is
    added then).

    \b
    Examples:
      kvproof history import runs.jsonl
      kvproof history import .benchmarks/0001_base.json --device "NVIDIA H200"
    """
    from kvproof.harness.cli.histories import run_import

    raise typer.Exit(run_import(files, history, target, device))


@command("history prune")
def prune(
    keep: Annotated[
        str, typer.Option("--keep", metavar="N", help="Newest runs to keep of each target and device.")
    ],
    history: History = None,
) -> None:
    """Forget all but the newest runs.

    \b
    Examples:
      kvproof history prune --keep 1000
    """
    from kvproof.harness.cli.histories import run_prune

    raise typer.Exit(run_prune(keep, history))
