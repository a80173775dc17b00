"""``kvproof limits``: how far a configuration's layout can be driven, found by the prover."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from kvproof.harness.cli import options
from kvproof.harness.cli.registry import command


@command("limits")
def limits(
    config: Annotated[
        str,
        typer.Argument(
            metavar="NAME|PATH",
            help="A real configuration, or a Hugging Face config.json (or its folder); for scratch a rank's share "
            "of a family, such as v4-pro-tp8.",
        ),
    ],
    system: Annotated[
        str,
        typer.Option("--system", metavar="NAME", help="row-space, schema or scratch. Default: row-space."),
    ] = "row-space",
    kv: options.Kv = None,
    draft: options.Draft = None,
    draft_tokens: options.DraftTokens = None,
    block_size: options.BlockSize = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the limits as JSON.")] = False,
) -> None:
    """Print derived limits: the largest planes for each integer width, the smallest rings that verify steps allow.

    Each is the last value that every solver proves; the next one is refuted by the case that is shown, which also
    fails on the concrete layout.

    \b
    Examples:
      kvproof limits v4-flash
      kvproof limits v4-pro-dspark --kv bf16 --json
      kvproof limits --system schema v4-pro-mtp1
      kvproof limits --system scratch v4-pro-tp8
    """
    from kvproof.harness.cli.subjects import launch_options
    from kvproof.harness.cli.systems import system_limits
    from kvproof.harness.cli.terminal import output_console, progress_console
    from kvproof.harness.prove.discharge import Solvers
    from kvproof.harness.solve.backends import SOLVERS, backend
    from kvproof.reports.verdict import exit_status

    search = system_limits(system, config, launch_options(kv, draft, draft_tokens, block_size))
    solvers = Solvers([backend(name) for name in SOLVERS])
    with progress_console().status("searching"):
        found = list(search(solvers))
    if as_json:
        print(json.dumps([_facts(limit) for limit in found], indent=1))
    else:
        _print(config, found, output_console())
    raise typer.Exit(exit_status([limit.verdict for limit in found]))


def _facts(limit: Any) -> dict[str, Any]:
    facts = {name: value for name, value in vars(limit).items() if name != "verdict"}
    return {**facts, "verdict": limit.verdict.status.value, "reason": limit.verdict.reason}


def _print(name: str, found: list[Any], console: Any) -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=f"{name}: last value proved, next one refuted")
    for column in ("limit", "value", "has", "unit", "verdict"):
        table.add_column(column, justify="right" if column in {"value", "has"} else "left", overflow="fold")
    table.add_column("the next value fails for", overflow="fold")
    for limit in found:
        value = "-" if limit.value is None else f"{limit.value:,}"
        has = "" if limit.has is None else f"{limit.has:,}"
        words = limit.witness if limit.verdict.passed else limit.verdict.reason
        table.add_row(escape(limit.name), value, has, limit.unit, limit.verdict.status.value, escape(words))
    console.print(table)
