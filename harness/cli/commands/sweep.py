"""``kvproof sweep`` and ``kvproof compare``: a target over time."""

from __future__ import annotations

from typing import Annotated

import typer

from kvproof.harness.cli.registry import command

SECONDS = Annotated[
    str, typer.Option("--budget", metavar="TIME", help="Time for the cases of one contract at one commit.")
]
CASES = Annotated[
    str, typer.Option("--cases", metavar="N", help="Cases of each of the two runs of a contract, at most.")
]
DEVICE = Annotated[
    str, typer.Option("--device", metavar="NAME", help="Where kernels run: cuda, hip, ir, interpret.")
]
SEED = Annotated[
    str, typer.Option("--seed", metavar="N", help="Seed of everything drawn, the same for all commits.")
]


@command("sweep")
def sweep(
    target: Annotated[
        str,
        typer.Option(
            "--target", metavar="NAME:REPO[@REV]", help="The target's repository, and the last revision."
        ),
    ],
    since: Annotated[str, typer.Option("--since", metavar="REV|DATE", help="Commits after it.")],
    device: DEVICE = "ir",
    budget: SECONDS = "6s",
    cases: CASES = "60",
    seed: SEED = "0",
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Also write the table to FILE as JSON.")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Keep the commits that the --json file has of a sweep that was broken off."),
    ] = False,
) -> None:
    """Check a target commit by commit: what could be mapped, and which findings appear and disappear.

    Only commits that change relevant files are looked at, and what a commit leaves as it was is not run again.

    \b
    Examples:
      kvproof sweep --target atom:../ATOM --since 2026-06-22
      kvproof sweep --target atom:../ATOM@v0.2 --since v0.1 --cases 200 --budget 30s
    """
    from kvproof.harness.cli.history import run_sweep
    from kvproof.harness.cli.targets import leave

    leave(run_sweep(target, since, device, budget, cases, seed, json_file, resume=resume))


@command("compare")
def compare(
    first: Annotated[str, typer.Option("--target", metavar="NAME:REPO@REV", help="The first commit.")],
    second: Annotated[str, typer.Argument(metavar="NAME:REPO@REV", help="The second commit.")],
    device: DEVICE = "ir",
    budget: SECONDS = "10s",
    cases: CASES = "150",
    seed: SEED = "0",
) -> None:
    """Compare two commits of a target: which contracts behave differently, on what input, and whose IR differs.

    Exit status: 0 whatever differs; 2 no such target or revision.

    \b
    Examples:
      kvproof compare --target atom:../ATOM@main~20 atom:../ATOM@main
    """
    from kvproof.harness.cli.history import run_compare
    from kvproof.harness.cli.targets import leave

    leave(run_compare(first, second, device, budget, cases, seed))
