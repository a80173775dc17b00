"""``kvproof regressions``: what became worse, and between which commits."""

from __future__ import annotations

from typing import Annotated

import typer

from kvproof.harness.cli.commands.report import History
from kvproof.harness.cli.registry import command


@command("regressions")
def regressions(
    last: Annotated[
        str, typer.Option("--last", metavar="N", help="Commits whose steps count, the newest ones.")
    ] = "10",
    target: Annotated[str | None, typer.Option("--target", metavar="NAME", help="Only this target.")] = None,
    history: History = None,
) -> None:
    """Say which series became worse in the history, between which commits, and how to find the one.

    Exit status: 0 nothing did, 1 something did, 3 there is no history.

    \b
    Examples:
      kvproof regressions
      kvproof regressions --last 50 --target atom
    """
    from kvproof.harness.cli.histories import run_regressions
    from kvproof.harness.cli.policy import read_policy

    raise typer.Exit(run_regressions(history, last, target, read_policy()))
