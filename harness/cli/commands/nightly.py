"""``kvproof nightly``: everything that runs while nobody looks, and one page about it."""

from __future__ import annotations

from typing import Annotated

import typer

from kvproof.harness.cli.commands.report import History
from kvproof.harness.cli.registry import command


@command("nightly")
def nightly(
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Folder of the results.")] = ".kvproof/nightly",
    budget: Annotated[str, typer.Option("--budget", metavar="TIME", help="Of the fuzz campaign.")] = "20m",
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="STEP", help="Only this step; may be repeated.")
    ] = None,
    history: History = None,
) -> None:
    """Prove, check compiled kernels for both vendors, fuzz, simulate, run the long tests, measure, look for
    regressions, write the site; then a page of Markdown, JUnit and SARIF. kvproof.toml says what fails it.

    \b
    Examples:
      kvproof nightly --out night
      kvproof nightly --out night --only benchmarks --only regressions --only site
    """
    from pathlib import Path

    from kvproof.harness.cli.nights import run_nightly
    from kvproof.harness.cli.policy import read_policy
    from kvproof.harness.cli.values import parse_budget

    parse_budget(budget)
    raise typer.Exit(run_nightly(Path(out), budget, history, read_policy(), only or []))
