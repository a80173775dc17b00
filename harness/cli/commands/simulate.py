"""``kvproof simulate``: whole request lifetimes against the reference memory."""

from __future__ import annotations

from typing import Annotated

import typer

from kvproof.harness.cli import options
from kvproof.harness.cli.registry import command


@command("simulate")
def simulate(
    config: Annotated[
        str,
        typer.Option("--config", "-c", metavar="NAME|PATH", help="A real configuration, or a config.json."),
    ] = "v4-flash",
    steps: Annotated[
        str, typer.Option("--steps", metavar="N", help="Request-steps: requests taking part in a step, summed.")
    ] = "200000",
    seed: options.Seed = options.DEFAULT_SEED,
    layers: Annotated[
        str,
        typer.Option(
            "--layers", metavar="WHICH", help="representative (one layer of each class) or all (and all planes)."
        ),
    ] = "representative",
    target: Annotated[
        str,
        typer.Option(
            "--target",
            metavar="T",
            help="reference (no kernels, for speed) or builtin (each step runs this project's).",
        ),
    ] = "reference",
    device: Annotated[
        str | None, typer.Option("--device", metavar="D", help="Where kernels run: ir, interpret, cuda or hip.")
    ] = None,
    journal: Annotated[
        str | None,
        typer.Option(
            "--journal", metavar="DIR", help="Keep a journal there, and go on with the one that is there."
        ),
    ] = None,
    jobs: Annotated[str, typer.Option("--jobs", metavar="N", help="Processes.")] = "1",
    kv: options.Kv = None,
    draft: options.Draft = None,
    draft_tokens: options.DraftTokens = None,
    block_size: options.BlockSize = None,
    json_file: options.JsonFile = None,
    junit_file: options.JunitFile = None,
) -> None:
    """Simulate serving and hold every row that is read to what it must hold.

    A seeded scheduler mixes admission, chunked prefill, decode, speculation, prefix hits, preemption, forks, moves
    between pools and of the boundary. A failure is shrunk to a schedule of a few steps and kept as a finding.
    The same seed and commit give the same campaign; with --journal a killed one goes on where it was.

    \b
    Examples:
      kvproof simulate --steps 10000000 --jobs 2 --journal campaign
      kvproof simulate --config v4-pro-dspark --layers all --seed 7
      kvproof simulate --target builtin --device ir --steps 300
    """
    from kvproof.harness.cli.simulating import Request, execute

    execute(
        Request(
            config=config,
            steps=steps,
            seed=seed,
            layers=layers,
            target=target,
            device=device,
            journal=journal,
            jobs=jobs,
            kv=kv,
            draft=draft,
            draft_tokens=draft_tokens,
            block_size=block_size,
        ),
        json_file=json_file,
        junit_file=junit_file,
    )
