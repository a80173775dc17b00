"""``kvproof replay``: run the case of a stored finding again."""

from __future__ import annotations

from typing import Annotated

import typer

from kvproof.harness.cli.registry import command


@command("replay")
def replay(
    finding: Annotated[
        str, typer.Argument(metavar="FINDING", help="A finding's id, the first digits of it, or its file.")
    ],
) -> None:
    """Run a finding's case again and say whether the fault is still there.

    Exit status: 1 the fault is still there, 0 it is gone, 3 the case could not be run.

    \b
    Examples:
      kvproof replay 3f2a9c0d1b4e
      kvproof replay .kvproof/findings/3f2a9c0d1b4e.json
    """
    from kvproof.harness.cli import engines
    from kvproof.harness.cli.summary import print_replay
    from kvproof.harness.cli.terminal import output_console
    from kvproof.reports.store import Store
    from kvproof.reports.verdict import exit_status

    known = Store().find(finding)
    result = engines.replay(known)
    print_replay(known, result, output_console())
    raise typer.Exit(exit_status([result.verdict]))
