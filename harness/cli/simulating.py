"""Runs a simulation campaign for the command: options, progress, findings, record, summary, exit status."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import typer

from kvproof.harness.cli.errors import UsageError
from kvproof.harness.cli.main import INTERRUPTED
from kvproof.harness.cli.subjects import launch_options, load_subject
from kvproof.harness.cli.terminal import output_console
from kvproof.harness.cli.values import parse_integer, parse_output, parse_seed
from kvproof.harness.simulate.campaign import Outcome, Plan, run_campaign
from kvproof.harness.simulate.findings import CHECKS, ENGINE
from kvproof.harness.simulate.journal import JournalError
from kvproof.harness.simulate.targets import TARGETS
from kvproof.reports import environment
from kvproof.reports.codec import record_text
from kvproof.reports.finding import Finding
from kvproof.reports.junit import junit_xml
from kvproof.reports.record import DeviceNote, Record
from kvproof.reports.result import Result
from kvproof.reports.store import Store, write_atomically
from kvproof.reports.verdict import Status, Verdict, exit_status

MOST_STEPS = 10**12
MOST_JOBS = 256
LIFETIMES = "lifetimes"
"""The property that a campaign checks; a finding names the check that failed."""


@dataclass(frozen=True)
class Request:
    """The command's options as text, None where not given."""

    config: str
    steps: str
    seed: str
    layers: str
    target: str
    device: str | None
    journal: str | None
    jobs: str
    kv: str | None
    draft: str | None
    draft_tokens: str | None
    block_size: str | None

    def plan(self) -> Plan:
        """The campaign.

        Raises:
            UsageError: a value that an option may not have.
            LayoutError: a configuration that is no layout.
        """
        for option, value, allowed in (
            ("--layers", self.layers, ("representative", "all")),
            ("--target", self.target, TARGETS),
        ):
            if value not in allowed:
                raise UsageError(f"{option} is {value!r}; allowed: {', '.join(allowed)}")
        devices = ("ir", "interpret", "cuda", "hip")
        if self.target == "reference" and self.device is not None:
            raise UsageError(f"--device is {self.device!r}, but --target reference runs no kernels; give --target")
        device = "" if self.target == "reference" else self.device or "ir"
        if device and device not in devices:
            raise UsageError(f"--device is {device!r}; allowed: {', '.join(devices)}")
        launch = launch_options(self.kv, self.draft, self.draft_tokens, self.block_size)
        config = load_subject(self.config, launch)
        if not any(ratio > 0 for ratio in config.ratios):
            raise UsageError(f"--config is {self.config!r}, a model without compressed rows, which has no blocks")
        return Plan(
            config=config,
            steps=parse_integer(self.steps, "--steps", 1, MOST_STEPS),
            seed=parse_seed(self.seed),
            layers="all" if self.layers == "all" else "representative",
            target=self.target,
            device=device,
            jobs=parse_integer(self.jobs, "--jobs", 1, MOST_JOBS),
        )

    def words(self) -> tuple[str, ...]:
        """The options for the record."""
        given = {name.replace("_", "-"): value for name, value in vars(self).items() if value is not None}
        return ("simulate", *(word for name, value in given.items() for word in (f"--{name}", str(value))))


def execute(request: Request, *, json_file: str | None = None, junit_file: str | None = None) -> None:
    """Run a campaign to its end or to an interrupt, and leave with its exit status.

    Raises:
        UsageError: an option's value, or a journal of another campaign.
        typer.Exit: always, with the exit status.
    """
    plan = request.plan()
    files = {
        option: parse_output(text, option)
        for option, text in (("--json", json_file), ("--junit", junit_file))
        if text is not None
    }
    folder = _folder(request.journal)
    started, begun = environment.utc_now(), time.monotonic()
    devices = _devices(plan)
    total, complete, recalled = Outcome(), False, 0
    if not devices or devices[0].available:
        try:
            for number, outcome in enumerate(run_campaign(plan, folder)):
                total = outcome
                recalled = outcome.request_steps if number == 0 else recalled
                _progress(plan, outcome, time.monotonic() - begun, recalled)
            complete = total.request_steps >= plan.steps
        except KeyboardInterrupt:
            complete = False
        except JournalError as error:
            raise UsageError(f"--journal: {error}") from error
        finally:
            _clear()
    seconds = time.monotonic() - begun
    result = _result(plan, total, devices, complete, seconds)
    record = Record(
        started=started,
        command=request.words(),
        results=(result,),
        seconds=round(seconds, 3),
        complete=complete,
        seed=plan.seed,
        commit=environment.commit(),
        machine=environment.machine(),
        versions=environment.versions(),
        devices=tuple(devices),
    )
    _print(plan, total, result, seconds, recalled)
    _keep(record, total.findings, files)
    code = exit_status([result.verdict])
    if not complete and code not in {1, 3}:
        code = INTERRUPTED
    raise typer.Exit(code)


def _folder(text: str | None) -> Path | None:
    if text is None:
        return None
    path = Path(text)
    if not text or (path.exists() and not path.is_dir()):
        raise UsageError(f"--journal is {text!r}; allowed: a folder")
    return path


def _devices(plan: Plan) -> list[DeviceNote]:
    if not plan.device:
        return []
    from kvproof.harness.devices.registry import find_device

    found = find_device(plan.device).probe()
    return [DeviceNote(plan.device, found.available, found.detail)]


def _result(plan: Plan, total: Outcome, devices: list[DeviceNote], complete: bool, seconds: float) -> Result:
    if devices and not devices[0].available:
        verdict = Verdict(Status.NOT_RUN, f"device {plan.device} is not here: {devices[0].detail}")
    elif total.findings:
        verdict = Verdict(Status.FAIL, total.findings[0].message)
    elif not complete:
        verdict = Verdict(Status.UNKNOWN, f"stopped after {total.request_steps} of {plan.steps} request-steps")
    else:
        assumed = ("an index is the same for all layers of a class",) if plan.layers == "representative" else ()
        bounds = (f"{total.request_steps} request-steps of {total.episodes} drawn episodes",)
        verdict = Verdict(Status.PASS, assumptions=assumed, bounds=bounds)
    return Result(
        plan.config.name,
        LIFETIMES,
        ENGINE,
        verdict,
        round(seconds, 3),
        cases=total.request_steps,
        events=total.events,
        device=plan.device,
        target=plan.target,
        findings=tuple(total.findings),
    )


def _progress(plan: Plan, total: Outcome, seconds: float, recalled: int) -> None:
    if not sys.stderr.isatty():
        return
    rate = (total.request_steps - recalled) / max(seconds, 1e-9)
    done = f"{total.request_steps:,} of {plan.steps:,} request-steps, {rate:,.0f}/s"
    print(f"\r{done}, {len(total.findings)} findings ", end="", file=sys.stderr, flush=True)


def _clear() -> None:
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def _print(plan: Plan, total: Outcome, result: Result, seconds: float, recalled: int) -> None:
    console = output_console()
    where = f", kernels of {plan.target} on {plan.device}" if plan.device else ""
    console.print(f"{plan.config.name}, {plan.layers} layers{where}; seed {plan.seed}", markup=False)
    done = total.request_steps - recalled
    line = f"{total.request_steps:,} request-steps in {total.steps:,} steps of {total.episodes:,} episodes"
    rate = f"{done:,} of them in {seconds:.1f} s, {done / max(seconds, 1e-9):,.0f} a second"
    console.print(f"{line}; {rate}", markup=False)
    events = ", ".join(f"{times:,} {event}" for event, times in sorted(_shown(total.events).items()))
    console.print(f"met: {events or 'nothing'}", markup=False)
    console.print(
        f"{result.verdict.status} {LIFETIMES}: {result.verdict.reason or '; '.join(result.verdict.bounds)}",
        markup=False,
    )
    for finding in total.findings:
        console.print(f"\nFAIL {finding.property_name}: {CHECKS.get(finding.property_name, '')}", markup=False)
        for line in finding.case["story"]:
            console.print(f"  {line}", markup=False)
        console.print(f"  kvproof replay {finding.id}; kvproof story {finding.id}", markup=False)


def _shown(events: Mapping[str, int]) -> Mapping[str, int]:
    return {event: times for event, times in events.items() if times}


def _keep(record: Record, findings: list[Finding], files: dict[str, Path]) -> None:
    store = Store()
    try:
        for finding in findings:
            store.save_finding(finding)
        print(f"record: {store.append_record(record)}")
    except OSError as error:
        typer.echo(f"kvproof: nothing was kept in {store.root}: {error.strerror}", err=True)
    texts = {"--json": record_text, "--junit": junit_xml}
    for option, path in files.items():
        try:
            write_atomically(path, texts[option](record))
        except OSError as error:
            raise UsageError(f"{option} is {str(path)!r}, which cannot be written: {error.strerror}") from error
