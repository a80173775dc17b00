"""``kvproof gate``: what a change means, for a pull request."""

from __future__ import annotations

from typing import Annotated

import typer

from kvproof.harness.cli.registry import command


@command("gate")
def gate(
    base: Annotated[str, typer.Argument(metavar="BASE", help="The revision before.")],
    head: Annotated[str, typer.Argument(metavar="HEAD", help="The revision after.")],
    out: Annotated[str | None, typer.Option("--out", metavar="FILE", help="Also write the page to FILE.")] = None,
    budget: Annotated[str, typer.Option("--budget", metavar="TIME", help="For all of it.")] = "270s",
) -> None:
    """Prove changed layouts, check changed kernels for both vendors, compare compiled code and CPU times of what
    can be affected, and print one page of Markdown. kvproof.toml says what fails the gate.

    \b
    Examples:
      kvproof gate origin/main HEAD --out comment.md
    """
    from kvproof.harness.cli.gates import run_gate
    from kvproof.harness.cli.policy import read_policy
    from kvproof.harness.cli.values import parse_budget

    raise typer.Exit(run_gate(base, head, out, parse_budget(budget), read_policy()))
