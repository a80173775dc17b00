"""``kvproof layout``: where the rows, state fields and bytes of one configuration go."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from kvproof.harness.cli import options
from kvproof.harness.cli.registry import command


@command("layout")
def layout(
    config: Annotated[
        str,
        typer.Argument(
            metavar="NAME|PATH", help="A real configuration, or a Hugging Face config.json (or its folder)."
        ),
    ],
    kv: options.Kv = None,
    draft: options.Draft = None,
    draft_tokens: options.DraftTokens = None,
    block_size: options.BlockSize = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the facts as JSON.")] = False,
) -> None:
    """Print a configuration's layout: classes, state fields, bytes of a block and of a slot, waste.

    \b
    Examples:
      kvproof layout v4-flash
      kvproof layout v4-pro-dspark --kv bf16 --json
      kvproof layout path/to/config.json --draft-tokens 1 --block-size 128
    """
    from kvproof.harness.cli.layout_facts import layout_facts
    from kvproof.harness.cli.subjects import launch_options, load_subject

    facts = layout_facts(load_subject(config, launch_options(kv, draft, draft_tokens, block_size)))
    if as_json:
        print(json.dumps(facts, indent=1))
        return
    from kvproof.harness.cli.layout_text import print_layout
    from kvproof.harness.cli.terminal import output_console

    print_layout(facts, output_console())
