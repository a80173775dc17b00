"""``kvproof layout``: where the rows of a configuration, the entries of a layer or the regions of a plan go."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from kvproof.harness.cli import options
from kvproof.harness.cli.errors import UsageError
from kvproof.harness.cli.registry import command

SYSTEMS = ("row-space", "schema", "scratch")


@command("layout")
def layout(
    config: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME|PATH", help="A real configuration, or a Hugging Face config.json (or its folder)."
        ),
    ] = None,
    system: Annotated[
        str,
        typer.Option("--system", metavar="NAME", help="row-space, schema or scratch. Default: row-space."),
    ] = "row-space",
    kv: options.Kv = None,
    draft: options.Draft = None,
    draft_tokens: options.DraftTokens = None,
    block_size: options.BlockSize = None,
    family: Annotated[
        str | None, typer.Option("--family", metavar="NAME", help="scratch: v4-pro or v4.1-flash.")
    ] = None,
    tp: Annotated[str | None, typer.Option("--tp", metavar="N", help="scratch: tensor-parallel ranks.")] = None,
    tokens: Annotated[
        str | None, typer.Option("--tokens", metavar="N", help="scratch: tokens of the step.")
    ] = None,
    topk: Annotated[
        str | None,
        typer.Option("--topk", metavar="N", help="scratch: compressed keys of a token. Default: the family's."),
    ] = None,
    chunk: Annotated[
        str | None,
        typer.Option("--chunk", metavar="N", help="scratch: keys of a chunk. Default: the plan's choice."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the facts as JSON.")] = False,
) -> None:
    """Print a layout: a configuration's row space or cache schema, or a rank's scratch plan.

    \b
    Examples:
      kvproof layout v4-flash
      kvproof layout v4-pro-dspark --kv bf16 --json
      kvproof layout path/to/config.json --draft-tokens 1 --block-size 128
      kvproof layout --system schema v4-pro-mtp1
      kvproof layout --system scratch --family v4-pro --tokens 16 --tp 8
    """
    from kvproof.harness.cli.subjects import launch_options, load_subject

    plan_options = {"--family": family, "--tp": tp, "--tokens": tokens, "--topk": topk, "--chunk": chunk}
    launch = {
        "NAME": config,
        "--kv": kv,
        "--draft": draft,
        "--draft-tokens": draft_tokens,
        "--block-size": block_size,
    }
    _check_system(system, launch if system == "scratch" else plan_options)
    if system == "scratch":
        from kvproof.harness.cli.layout_scratch import print_scratch, scratch_facts, scratch_plan

        _show(scratch_facts(scratch_plan(family, tp, tokens, topk, chunk)), print_scratch, as_json)
        return
    if config is None:
        raise UsageError("name a configuration or a config.json: kvproof layout v4-flash")
    model = load_subject(config, launch_options(kv, draft, draft_tokens, block_size))
    if system == "schema":
        from kvproof.harness.cli.layout_schema import print_schema, schema_facts

        _show(schema_facts(model), print_schema, as_json)
        return
    from kvproof.harness.cli.layout_facts import layout_facts
    from kvproof.harness.cli.layout_text import print_layout

    _show(layout_facts(model), print_layout, as_json)


def _check_system(system: str, foreign: Mapping[str, str | None]) -> None:
    """Refuse an unknown system, and an option that another system has.

    Raises:
        UsageError: either.
    """
    if system not in SYSTEMS:
        raise UsageError(f"--system is {system!r}; allowed: {', '.join(SYSTEMS)}")
    for option, value in foreign.items():
        if value is not None:
            raise UsageError(f"{option} is {value!r}, which means nothing for --system {system}")


def _show(facts: dict[str, Any], table: Callable[[dict[str, Any], Any], None], as_json: bool) -> None:
    if as_json:
        print(json.dumps(facts, indent=1))
        return
    from kvproof.harness.cli.terminal import output_console

    table(facts, output_console())
