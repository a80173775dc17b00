"""What ``kvproof nightly`` does: every campaign one after the other, and one page about all of them."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path

from kvproof.harness.cli.measuring import have_gpu
from kvproof.harness.cli.policy import Policy
from kvproof.harness.cli.steps import Outcome, Step, details, perform, table
from kvproof.reports import environment
from kvproof.reports.history.series import timelines
from kvproof.reports.history.store import open_history
from kvproof.reports.junit import junit_xml
from kvproof.reports.record import DeviceNote, Record
from kvproof.reports.result import Result
from kvproof.reports.store import write_atomically
from kvproof.reports.verdict import Status, Verdict
from kvproof.reports.verdicts.regressions import headline, regressions, worse

ARCH = "cuda:90,hip:gfx942,hip:gfx950"
MOST_LINES = 20


def steps_of(out: Path, budget: str, history: str | None, policy: Policy, only: list[str]) -> list[Step]:
    """The steps of a night, in order; those named if any are."""
    place = ("--history", history) if history else ()
    known = [
        Step("proofs", ("prove",)),
        Step("compiled kernels", ("ir", "check", "--arch", ARCH, "--sarif", str(out / "ir.sarif"))),
        Step(
            "fuzzing",
            (
                "fuzz",
                "--device",
                "all",
                "--budget",
                budget,
                "--json",
                str(out / "fuzz.json"),
                "--junit",
                str(out / "fuzz.xml"),
            ),
            4 * 3600.0,
        ),
        Step(
            "simulation",
            ("simulate", "--steps", str(policy.request_steps), "--junit", str(out / "simulate.xml")),
        ),
        Step(
            "long tests",
            ("pytest", "-m", "slow", "-n", "auto", "-q", f"--junitxml={out / 'slow.xml'}"),
            float(policy.longest),
            module=True,
        ),
        Step("benchmarks", ("bench", "--save", "--alike", f"{policy.alike}s", *place)),
        Step("regressions", ("regressions", "--last", str(policy.last), *place), red="SLOWER"),
        Step("site", ("report", "--out", str(out / "site"), *place)),
    ]
    return [step for step in known if not only or step.name in only]


def run_nightly(out: Path, budget: str, history: str | None, policy: Policy, only: list[str]) -> int:
    """Run the night; exit status 1 if the policy says that it failed."""
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    started, begun = environment.utc_now(), time.monotonic()
    outcomes: list[Outcome] = []
    for step in steps_of(out, budget, history, policy, only):
        outcomes.append(_performed(step))
        done = outcomes[-1]
        print(f"{done.verdict} {step.name}, {done.seconds:.0f} s {done.reason}", flush=True)
    failed = [done for done in outcomes if done.verdict in policy.fail_on]
    gpu, detail = have_gpu()
    lines = [f"## Night of {started}", "", _words(failed), "", *table(outcomes), ""]
    if not gpu:
        lines += [f"NOT_RUN: everything on a GPU, since {detail}.", ""]
    lines += [*_history(history, policy), *details(outcomes), ""]
    write_atomically(out / "summary.md", "\n".join(lines))
    write_atomically(
        out / "nightly.xml", junit_xml(_record(started, time.monotonic() - begun, outcomes, detail, gpu=gpu))
    )
    print(_words(failed))
    print(f"summary: {out / 'summary.md'}")
    return 1 if failed else 0


def _performed(step: Step) -> Outcome:
    if step.module and not Path("tests").is_dir():
        return Outcome(step, "NOT_RUN", "no tests here: this is no checkout of kvproof", 0.0)
    if step.module and importlib.util.find_spec("xdist") is None:
        return Outcome(step, "NOT_RUN", "pytest-xdist is not installed", 0.0)
    return perform(step, Path.cwd())


def _words(failed: list[Outcome]) -> str:
    if not failed:
        return "**PASS**: nothing that fails the night."
    return "**FAIL**: " + ", ".join(f"{done.step.name} {done.verdict}" for done in failed)


def _history(history: str | None, policy: Policy) -> list[str]:
    """Markdown lines: today's verdict of each target and what became worse."""
    lines: list[str] = []
    for line in timelines(open_history(history).runs(), policy.relevance):
        steps = regressions(line, policy.last)
        lines += [f"{headline(line, steps, policy.last)}", ""]
        slower = worse(steps)
        if slower:
            lines += ["| series | metric | before | after | change | between |", "|---|---|---:|---:|---:|---|"]
            lines += [
                f"| {s.series.name} on {s.series.on} | {s.series.metric} | {s.before:.6g} | {s.after:.6g} "
                f"| {s.amount} | `{s.good.short}..{s.bad.short}` |"
                for s in slower[:MOST_LINES]
            ]
            lines += [
                f"and {len(slower) - MOST_LINES} more" if len(slower) > MOST_LINES else "",
                f"`{slower[0].bisect}`",
                "",
            ]
    return lines


def _record(started: str, seconds: float, outcomes: list[Outcome], detail: str, *, gpu: bool) -> Record:
    """The night as a record, for the JUnit writer."""
    status = {"SLOWER": Status.FAIL, "AMBIGUOUS": Status.UNKNOWN}
    results = tuple(
        Result(
            "nightly",
            done.step.name,
            "replay",
            Verdict(
                status.get(done.verdict) or Status(done.verdict),
                done.reason or ("" if done.verdict == "PASS" else "?"),
            ),
            done.seconds,
        )
        for done in outcomes
    )
    return Record(
        started,
        ("nightly",),
        results,
        seconds,
        commit=environment.commit(),
        machine=environment.machine(),
        versions=environment.versions(),
        devices=(DeviceNote("gpu", gpu, detail),),
    )
