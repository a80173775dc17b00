"""``kvproof verify``: prove and fuzz the real layouts and this project's kernels."""

from __future__ import annotations

from kvproof.harness.cli import options
from kvproof.harness.cli.registry import command


@command("verify")
def verify(
    config: options.Configs = None,
    system: options.System = None,
    device: options.Device = options.DEFAULT_DEVICE,
    budget: options.Budget = options.DEFAULT_BUDGET,
    seed: options.Seed = options.DEFAULT_SEED,
    kv: options.Kv = None,
    draft: options.Draft = None,
    draft_tokens: options.DraftTokens = None,
    block_size: options.BlockSize = None,
    target: options.Target = None,
    contract: options.Contracts = None,
    json_file: options.JsonFile = None,
    junit_file: options.JunitFile = None,
) -> None:
    """Prove and fuzz: every statement and every kernel, for each configuration.

    Proofs hold for all block counts, slot counts, positions and layers at once; they are not cut short by
    --budget. Fuzzing takes the budget and shares it out equally. Ends with a table, the reason of everything
    that is not PASS, and the command that replays each fault.

    \b
    Examples:
      kvproof verify
      kvproof verify --config v4-pro-dspark --budget 2m --json run.json
      kvproof verify --device cuda --seed 7
      kvproof verify --target atom:../ATOM@main
    """
    if target is not None and target != "builtin":
        from kvproof.harness.cli.targets import Run, leave, run_target

        run = Run("verify", target, device, budget, seed, contract or (), config or (), json_file, junit_file)
        leave(run_target(run))
    from kvproof.harness.cli.execute import Choice, execute

    choice = Choice(config, kv, draft, draft_tokens, block_size, device, budget, seed, systems=system)
    execute(choice.plan("verify", proving=True, fuzzing=True), json_file=json_file, junit_file=junit_file)
