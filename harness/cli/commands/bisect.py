"""``kvproof bisect``: the commit that changed a number."""

from __future__ import annotations

from typing import Annotated

import typer

from kvproof.harness.cli.registry import command


@command("bisect")
def bisect(
    bench: Annotated[str, typer.Argument(metavar="BENCH", help="Name of a series, as in the history.")],
    good: Annotated[str, typer.Argument(metavar="GOOD", help="A revision with the old number.")],
    bad: Annotated[str, typer.Argument(metavar="BAD", help="A later revision with the new one.")],
    metric: Annotated[
        str,
        typer.Option("--metric", metavar="NAME", help="time, or what is counted: instructions, registers, ..."),
    ] = "instructions",
    on: Annotated[
        str, typer.Option("--on", metavar="WHERE", help="GPU compiled for (cuda:90), cpu, or a GPU's name.")
    ] = "cuda:90",
    target: Annotated[str, typer.Option("--target", metavar="TARGET", help="builtin, or NAME:PATH.")] = "builtin",
) -> None:
    """Find the first commit after GOOD, up to BAD, at which a series has BAD's number.

    Measures about log2 of the commits between. One without a number is left out, and named if it may be the one.

    \b
    Examples:
      kvproof bisect window_write/decode-b1-q1 HEAD~20 HEAD
      kvproof bisect "hca_head on ir" v1 main --metric time --on cpu
    """
    from kvproof.harness.cli.bisecting import run_bisect

    raise typer.Exit(run_bisect(bench, good, bad, metric, on, target))
