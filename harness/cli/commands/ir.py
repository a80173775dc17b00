"""``kvproof ir``: compiled kernels checked, run and compared, on a machine without a GPU."""

from __future__ import annotations

from typing import Annotated

import typer

from kvproof.harness.cli import options
from kvproof.harness.cli.registry import command

Names = Annotated[
    list[str] | None, typer.Argument(metavar="[KERNEL]...", help="Kernels by name. Default: all of them.")
]
Arch = Annotated[
    str,
    typer.Option(
        "--arch",
        metavar="LIST",
        help="GPUs to compile for, with commas between: cuda:<digits> as in cuda:90, hip:<gfx> as in hip:gfx942.",
    ),
]
ARCH = "cuda:90,hip:gfx942,hip:gfx950"


@command("ir check")
def check(
    kernels: Names = None,
    arch: Arch = ARCH,
    config: Annotated[
        str, typer.Option("--config", metavar="NAME", help="Configuration whose layout the launches have.")
    ] = "v4-flash",
    everything: Annotated[bool, typer.Option("--all", help="Ask everything again.")] = False,
    jobs: Annotated[
        str | None, typer.Option("--jobs", metavar="N", help="Worker processes. Default: one a core.")
    ] = None,
    sarif: Annotated[
        str | None, typer.Option("--sarif", metavar="FILE", help="Also write what failed to FILE as SARIF.")
    ] = None,
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Also write every result to FILE as JSON.")
    ] = None,
    target: options.Target = None,
) -> None:
    """Prove of compiled kernels, for all contents and sizes that their contracts allow: every access in bounds,
    no sentinel in an address, no wrap, one writer a cell, and the contract's addresses.

    With --target it is a target's ``@triton.jit`` kernels: drawn launches of each contract from their IR, every
    access checked, and every element offset that is computed in 32 bits, with file and line.

    \b
    Examples:
      kvproof ir check
      kvproof ir check window_write row_scatter --arch cuda:90
      kvproof ir check --sarif kernels.sarif
      kvproof ir check --target atom:../ATOM --arch hip:gfx942
    """
    if target is not None and target != "builtin":
        from kvproof.harness.cli.ir_targets import run_target_check

        raise typer.Exit(run_target_check(target, kernels or [], arch, sarif=sarif, json_file=json_file))
    from kvproof.harness.cli.ir_kernels import run_check

    status = run_check(
        kernels or [], arch, config, everything=everything, jobs=jobs, sarif=sarif, json_file=json_file
    )
    raise typer.Exit(status)


@command("ir run")
def run(
    kernel: Annotated[str, typer.Argument(metavar="KERNEL", help="The kernel by name.")],
    cases: Annotated[str, typer.Option("--cases", metavar="N", help="Drawn launches to run.")] = "200",
    seed: Annotated[str, typer.Option("--seed", metavar="N", help="Seed of what is drawn.")] = "0",
    arch: Annotated[str, typer.Option("--arch", metavar="GPU", help="GPU to compile for.")] = "cuda:90",
) -> None:
    """Run drawn launches of a kernel from its compiled IR and compare each with its contract.

    \b
    Examples:
      kvproof ir run window_write
      kvproof ir run csa_translate --cases 2000 --arch hip:gfx942
    """
    from kvproof.harness.cli.ir_kernels import run_cases

    raise typer.Exit(run_cases(kernel, cases, seed, arch))


@command("ir diff")
def diff(
    revision: Annotated[str, typer.Argument(metavar="REV", help="The git revision to compare with.")],
    kernels: Names = None,
    arch: Arch = "cuda:90",
) -> None:
    """Which kernels' compiled IR differs from that of another revision, and in which addresses.

    Exit status: 0 whatever differs; 2 no such revision.

    \b
    Examples:
      kvproof ir diff HEAD~1
      kvproof ir diff main window_write
    """
    from kvproof.harness.cli.ir_kernels import run_diff

    raise typer.Exit(run_diff(revision, kernels or [], arch))
