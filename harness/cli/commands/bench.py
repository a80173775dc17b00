"""``kvproof bench``: measure a version of a target."""

from __future__ import annotations

from typing import Annotated

import typer

from kvproof.harness.cli.commands.report import History
from kvproof.harness.cli.registry import command


@command("bench")
def bench(
    target: Annotated[
        str, typer.Option("--target", metavar="TARGET", help="builtin, builtin@REV, NAME:PATH or NAME:PATH@REV.")
    ] = "builtin",
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind", metavar="KIND", help="offline, cpu or gpu; may be repeated. Default: all that can."
        ),
    ] = None,
    kernel: Annotated[
        list[str] | None, typer.Option("--kernel", metavar="NAME", help="Only this kernel; may be given often.")
    ] = None,
    arch: Annotated[
        str, typer.Option("--arch", metavar="LIST", help="GPUs to compile for, with commas between.")
    ] = "cuda:90,hip:gfx942",
    cases: Annotated[
        str, typer.Option("--cases", metavar="N", help="Cases of a kernel on a GPU; 0 for all.")
    ] = "4",
    check: Annotated[
        str, typer.Option("--check", metavar="TIME", help="For checking a kernel before it is measured.")
    ] = "20s",
    save: Annotated[bool, typer.Option("--save", help="Keep the runs in the history.")] = False,
    history: History = None,
    alike: Annotated[
        str | None,
        typer.Option(
            "--alike",
            metavar="TIME",
            help="Also compare CPU series with themselves for so long; five such runs tell the gate their noise.",
        ),
    ] = None,
    benchmark_json: Annotated[
        str | None,
        typer.Option("--benchmark-json", metavar="FILE", help="Write the times as pytest-benchmark does."),
    ] = None,
) -> None:
    """Measure kernels: compiled code for both vendors, and times on what is here. What cannot be measured is named
    with the reason; of a kernel whose check fails there is no number.

    \b
    Examples:
      kvproof bench --save
      kvproof bench --kind offline --kernel window_write --target builtin@HEAD~1
      kvproof bench --target atom:../ATOM@main --save
    """
    from kvproof.harness.cli.measuring import run_bench
    from kvproof.harness.cli.values import parse_budget

    raise typer.Exit(
        run_bench(
            target,
            kind or [],
            kernel or [],
            arch,
            cases,
            check,
            history if save else None,
            save=save,
            benchmark_json=benchmark_json,
            alike=parse_budget(alike, "--alike") if alike else 0.0,
        )
    )
