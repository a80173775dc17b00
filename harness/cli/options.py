"""The options that several subcommands share, and their help.

Values arrive as text and are read by :mod:`kvproof.harness.cli.values`, so that a wrong one gets the same kind
of message in every release of typer.
"""

from __future__ import annotations

from typing import Annotated

import typer

Configs = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        "-c",
        metavar="NAME|PATH",
        help="A real configuration by name, or a Hugging Face config.json (or its folder). May be given more than "
        "once. Default: every real configuration, fp8 and bf16.",
    ),
]
System = Annotated[
    list[str] | None,
    typer.Option(
        "--system",
        metavar="NAME",
        help="row-space, schema (per-layer cache and block budgets) or scratch (mega-kernel scratch plans). May "
        "be given more than once. Default: all; with --config the two that a configuration has.",
    ),
]
Kv = Annotated[
    str | None,
    typer.Option("--kv", metavar="fp8|bf16", help="KV dtype, which sets the planes. Default: fp8."),
]
Draft = Annotated[
    str | None,
    typer.Option(
        "--draft",
        metavar="mtp|dspark",
        help="Kind of the draft layers. Default: the configuration's own, else mtp if draft tokens are given.",
    ),
]
DraftTokens = Annotated[
    str | None, typer.Option("--draft-tokens", metavar="K", help="Draft tokens a step, a launch option.")
]
BlockSize = Annotated[
    str | None, typer.Option("--block-size", metavar="N", help="Tokens of a block. Default: 256.")
]
Device = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="NAME",
        help="Where kernels run: cuda, hip, ir (their compiled IR, needs no GPU), interpret (Triton's "
        "interpreter), all, or auto: all but interpret, which stands in where ir cannot run.",
    ),
]
Budget = Annotated[
    str,
    typer.Option(
        "--budget",
        metavar="TIME",
        help="Time for all fuzzing together: 60s, 2m, 1h; a bare number is seconds. What has not seen the "
        "cases that it needs by then may go on for half as long again.",
    ),
]
Seed = Annotated[
    str, typer.Option("--seed", metavar="N", help="Seed of everything drawn. The same seed draws the same cases.")
]
Target = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="TARGET",
        help="Whose kernels: builtin, atom:PATH or vllm:PATH (a checkout or an unpacked wheel; PATH@REV takes a "
        "revision), a plugin's NAME:PATH, or the path of a TOML profile. Default: builtin.",
    ),
]
Contracts = Annotated[
    list[str] | None,
    typer.Option(
        "--contract", metavar="NAME", help="With --target: only this contract. May be given more than once."
    ),
]
ListOnly = Annotated[
    bool, typer.Option("--list", help="Only say what would run and what each needs to have seen; run nothing.")
]
JsonFile = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Also write the run's record to FILE as JSON.")
]
JunitFile = Annotated[
    str | None, typer.Option("--junit", metavar="FILE", help="Also write the results to FILE as JUnit XML.")
]

DEFAULT_BUDGET = "60s"
DEFAULT_SEED = "0"
DEFAULT_DEVICE = "auto"
