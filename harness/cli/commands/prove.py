"""``kvproof prove``: the half of verify that asks solvers."""

from __future__ import annotations

from kvproof.harness.cli import options
from kvproof.harness.cli.registry import command


@command("prove")
def prove(
    config: options.Configs = None,
    system: options.System = None,
    kv: options.Kv = None,
    draft: options.Draft = None,
    draft_tokens: options.DraftTokens = None,
    block_size: options.BlockSize = None,
    json_file: options.JsonFile = None,
    junit_file: options.JunitFile = None,
) -> None:
    """Prove every statement about the layout, for all counts, slots, positions and layers at once.

    \b
    Examples:
      kvproof prove
      kvproof prove --config path/to/config.json --draft-tokens 1 --kv bf16
    """
    from kvproof.harness.cli.execute import Choice, execute

    choice = Choice(config, kv, draft, draft_tokens, block_size, systems=system)
    execute(choice.plan("prove", proving=True, fuzzing=False), json_file=json_file, junit_file=junit_file)
