"""Runs a plan for a command: progress, findings and record to disk, summary, exit status."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import typer

from kvproof.harness.cli import options
from kvproof.harness.cli.campaign import Campaign, Plan
from kvproof.harness.cli.errors import UsageError
from kvproof.harness.cli.main import INTERRUPTED
from kvproof.harness.cli.progress import progress
from kvproof.harness.cli.proving import ProofChoice
from kvproof.harness.cli.subjects import launch_options, select_subjects
from kvproof.harness.cli.summary import print_summary
from kvproof.harness.cli.systems import parse_systems
from kvproof.harness.cli.terminal import output_console
from kvproof.harness.cli.values import parse_budget, parse_output, parse_seed
from kvproof.reports.codec import record_text
from kvproof.reports.junit import junit_xml
from kvproof.reports.record import Record
from kvproof.reports.store import Store, write_atomically
from kvproof.reports.verdict import exit_status


@dataclass(frozen=True)
class Choice:
    """The shared options as text, None where not given."""

    configs: list[str] | None = None
    kv: str | None = None
    draft: str | None = None
    draft_tokens: str | None = None
    block_size: str | None = None
    device: str | None = None
    budget: str | None = None
    seed: str | None = None
    systems: list[str] | None = None

    def plan(self, name: str, *, proving: bool, fuzzing: bool) -> Plan:
        """What the options of subcommand ``name`` ask for.

        Raises:
            UsageError: a value that an option may not have.
            LayoutError: a configuration that is no layout.
        """
        launch = launch_options(self.kv, self.draft, self.draft_tokens, self.block_size)
        return Plan(
            command=(name, *self._words()),
            subjects=tuple(select_subjects(self.configs, launch)),
            systems=parse_systems(self.systems, configs_named=bool(self.configs)),
            proving=proving,
            fuzzing=fuzzing,
            any_layout=not self.configs,
            device=self.device or options.DEFAULT_DEVICE,
            budget_seconds=parse_budget(self.budget or options.DEFAULT_BUDGET),
            seed=parse_seed(self.seed or options.DEFAULT_SEED),
            # Beside fuzzing, the second opinion would take most of the time; `kvproof prove` asks for it.
            proofs=ProofChoice(theorems=self.theorems, one_solver=fuzzing),
        )

    @property
    def theorems(self) -> bool:
        """Whether layouts of every size are meant too: where no configuration is named."""
        return not self.configs and "row-space" in parse_systems(self.systems)

    def _words(self) -> Iterator[str]:
        for name, value in vars(self).items():
            values = value if isinstance(value, list) else [value]
            for item in values:
                if item is not None:
                    yield from (f"--{name.removesuffix('s').replace('_', '-')}", item)


def execute(plan: Plan, *, json_file: str | None = None, junit_file: str | None = None) -> None:
    """Run a plan to its end or to an interrupt, and leave with its exit status.

    Raises:
        UsageError: an output file that cannot be written.
        typer.Exit: always, with the exit status.
    """
    files = {
        option: parse_output(text, option)
        for option, text in (("--json", json_file), ("--junit", junit_file))
        if text is not None
    }
    campaign = Campaign(plan)
    with progress() as listener:
        campaign.run(listener)
    record = campaign.record()
    console = output_console()
    print_summary(record, campaign.planned, console)
    _keep(campaign, record, files)
    code = exit_status(campaign.verdicts)
    if not campaign.complete and code != 1:
        code = INTERRUPTED
    raise typer.Exit(code)


def _keep(campaign: Campaign, record: Record, files: dict[str, Path]) -> None:
    """Write what the run found. The store is a help: if it cannot be written, that costs a line, not the run."""
    store = Store()
    try:
        for finding in campaign.findings:
            store.save_finding(finding)
        kept = store.append_record(record)
    except OSError as error:
        typer.echo(f"kvproof: nothing was kept in {store.root}: {error.strerror}", err=True)
    else:
        print(f"record: {kept}")
    texts = {"--json": record_text, "--junit": junit_xml}
    for option, path in files.items():
        try:
            write_atomically(path, texts[option](record))
        except OSError as error:
            raise UsageError(f"{option} is {str(path)!r}, which cannot be written: {error.strerror}") from error
