"""``kvproof prove``: the half of verify that asks solvers; it asks again only what has changed."""

from __future__ import annotations

from typing import Annotated

import typer

from kvproof.harness.cli import options
from kvproof.harness.cli.errors import UsageError
from kvproof.harness.cli.registry import command

MAX_SEEDS = 100


@command("prove")
def prove(
    config: options.Configs = None,
    system: options.System = None,
    kv: options.Kv = None,
    draft: options.Draft = None,
    draft_tokens: options.DraftTokens = None,
    block_size: options.BlockSize = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Prove everything again, also what the lock file has.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Prove nothing: fail if the lock file is stale or holds anything but PASS."),
    ] = False,
    reseed: Annotated[
        str | None,
        typer.Option(
            "--reseed",
            metavar="N",
            help="Prove everything with N other seeds and orders, and report what differs.",
        ),
    ] = None,
    diff: Annotated[
        str | None,
        typer.Option(
            "--diff", metavar="REV", help="Prove nothing: name the layout facts and obligations changed since REV."
        ),
    ] = None,
    lock: Annotated[
        str | None,
        typer.Option(
            "--lock", metavar="FILE", help="The lock file. Default: proofs/proofs.lock, or one of your own."
        ),
    ] = None,
    jobs: Annotated[
        str | None, typer.Option("--jobs", metavar="N", help="Worker processes. Default: one a core.")
    ] = None,
    solver: Annotated[
        list[str] | None,
        typer.Option(
            "--solver", metavar="NAME", help="z3, cvc5 or isl. May be given more than once. Default: z3 and cvc5."
        ),
    ] = None,
    json_file: options.JsonFile = None,
    junit_file: options.JunitFile = None,
) -> None:
    """Prove every statement about the layout, for all counts, slots, positions and layers at once.

    Without --config also the theorems for every size. What the lock file has as proved is asked again only if its
    obligation has changed.

    \b
    Examples:
      kvproof prove
      kvproof prove --check
      kvproof prove --diff HEAD~1
      kvproof prove --config path/to/config.json --draft-tokens 1 --kv bf16
    """
    from dataclasses import replace

    from kvproof.harness.cli.execute import Choice, execute
    from kvproof.harness.cli.proving import default_lock, parse_lock, parse_solvers
    from kvproof.harness.cli.values import optional, parse_integer

    modes = {"--all": everything, "--check": check, "--reseed": reseed is not None, "--diff": diff is not None}
    wanted = [name for name, given in modes.items() if given]
    if len(wanted) > 1:
        raise UsageError(f"{' and '.join(wanted)} exclude each other")
    seeds = optional(lambda text: parse_integer(text, "--reseed", 1, MAX_SEEDS), reseed)
    workers = optional(lambda text: parse_integer(text, "--jobs", 1, 1024), jobs) or 0
    choice = Choice(config, kv, draft, draft_tokens, block_size, systems=system)
    plan = choice.plan("prove", proving=True, fuzzing=False)
    path = parse_lock(lock) if lock is not None else default_lock(plan.subjects)
    proofs = replace(
        plan.proofs,
        lock=path,
        everything=everything,
        check=check,
        jobs=workers,
        solvers=parse_solvers(solver),
    )
    plan = replace(plan, proofs=proofs)
    if seeds is not None:
        from kvproof.harness.cli.proof_reports import print_stability

        raise typer.Exit(print_stability(plan, seeds))
    if diff is not None:
        from kvproof.harness.cli.proof_reports import print_changes

        raise typer.Exit(print_changes(plan, diff))
    execute(plan, json_file=json_file, junit_file=junit_file)
