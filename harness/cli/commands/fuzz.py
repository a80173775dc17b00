"""``kvproof fuzz``: the half of verify that runs cases."""

from __future__ import annotations

from kvproof.harness.cli import options
from kvproof.harness.cli.registry import command


@command("fuzz")
def fuzz(
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
    list_only: options.ListOnly = False,
    json_file: options.JsonFile = None,
    junit_file: options.JunitFile = None,
) -> None:
    """Run drawn cases: every statement, and every kernel and joint obligation on each device that is here.

    The whole of each buffer is compared, so a stray write anywhere is seen. A fault is shrunk, kept, and can be
    replayed.

    \b
    Examples:
      kvproof fuzz --budget 5m
      kvproof fuzz --list --device all
      kvproof fuzz --config v4-flash-mtp1 --device interpret --seed 3
      kvproof fuzz --target atom:../ATOM --contract window_write
    """
    if target is not None and target != "builtin":
        from kvproof.harness.cli.targets import Run, leave, run_target

        run = Run("fuzz", target, device, budget, seed, contract or (), config or (), json_file, junit_file)
        leave(run_target(run))
    from kvproof.harness.cli.errors import UsageError
    from kvproof.harness.cli.execute import Choice, execute

    if contract:
        raise UsageError(f"--contract is {contract[0]!r}, which only --target of another project takes")
    choice = Choice(config, kv, draft, draft_tokens, block_size, device, budget, seed, systems=system)
    plan = choice.plan("fuzz", proving=False, fuzzing=True)
    if list_only:
        from kvproof.harness.cli.listing import print_fuzz_tasks

        print_fuzz_tasks(plan)
        return
    execute(plan, json_file=json_file, junit_file=junit_file)
