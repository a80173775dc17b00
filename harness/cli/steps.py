"""Steps of a night or a gate: other subcommands in processes of their own, and what became of each."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kvproof.harness.cli.registry import all_commands

VERDICTS = {0: "PASS", 1: "FAIL", 3: "UNKNOWN"}
TAIL = 12


@dataclass(frozen=True)
class Step:
    """One step.

    Attributes:
        name: in words.
        arguments: of ``kvproof``, or of Python after ``-m`` if ``module`` says so.
        seconds: it is ended after so long.
        module: run ``python -m arguments`` instead.
        red: what an exit status of 1 means.
    """

    name: str
    arguments: tuple[str, ...]
    seconds: float = 3600.0
    module: bool = False
    red: str = "FAIL"


@dataclass(frozen=True)
class Outcome:
    """What became of a step.

    Attributes:
        step: the step.
        verdict: PASS, FAIL, SLOWER, UNKNOWN or NOT_RUN.
        reason: why it is not PASS.
        seconds: how long it took.
        output: its last lines.
    """

    step: Step
    verdict: str
    reason: str
    seconds: float
    output: tuple[str, ...] = ()


def perform(
    step: Step, folder: Path, source: Path | None = None, more: Mapping[str, str] | None = None
) -> Outcome:
    """Run a step in a folder. A subcommand that this kvproof does not have is NOT_RUN.

    Args:
        step: what to run.
        folder: working directory.
        source: folder to import kvproof from; None for the one that runs.
        more: further environment variables.
    """
    if not step.module and not _known(step.arguments):
        return Outcome(step, "NOT_RUN", f"this kvproof has no command {step.arguments[0]!r}", 0.0)
    paths = [str(source)] if source else [path for path in sys.path if path]
    environment = {**os.environ, **(more or {}), "PYTHONPATH": os.pathsep.join(paths)}
    module = () if step.module else ("kvproof",)
    begun = time.monotonic()
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        # A session of its own, so that what it started ends with it; a file, so that nothing can keep a pipe open.
        process = subprocess.Popen(  # noqa: S603  (this interpreter)
            [sys.executable, "-m", *module, *step.arguments],
            cwd=folder,
            env=environment,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status: int | None = process.wait(step.seconds)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            _end(process)
        said.seek(0)
        lines = tuple(line.rstrip("\n") for line in said if line.strip())
    seconds = time.monotonic() - begun
    if status is None:
        return Outcome(step, "UNKNOWN", f"ended after {step.seconds:g} s", seconds, lines[-TAIL:])
    verdict = step.red if status == 1 else VERDICTS.get(status, "UNKNOWN")
    reason = "" if verdict == "PASS" else _reason(lines, verdict) or f"exit status {status}"
    return Outcome(step, verdict, reason, seconds, lines[-TAIL:])


def _reason(lines: Sequence[str], verdict: str) -> str:
    """The line that says best why a step is not PASS: the last that begins with its verdict, or just the last."""
    said = [line.strip() for line in lines if line.strip().startswith(verdict)]
    return (said or [line.strip() for line in lines] or [""])[-1][:200]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it started."""
    if sys.platform != "win32":
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()


def _known(arguments: Sequence[str]) -> bool:
    known = all_commands()
    return arguments[0] in known or " ".join(arguments[:2]) in known


def table(outcomes: Sequence[Outcome]) -> list[str]:
    """Markdown lines: one row a step."""
    lines = ["| step | verdict | seconds | what |", "|---|---|---:|---|"]
    for outcome in outcomes:
        words = (outcome.reason or (outcome.output[-1] if outcome.output else "")).replace("|", "\\|")
        lines.append(f"| {outcome.step.name} | {outcome.verdict} | {outcome.seconds:.0f} | {words[:160]} |")
    return lines


def details(outcomes: Sequence[Outcome]) -> list[str]:
    """Markdown lines: the command and last lines of each step that is not PASS."""
    lines: list[str] = []
    for outcome in outcomes:
        if outcome.verdict in {"PASS", "NOT_RUN"} or not outcome.output:
            continue
        command = shlex.join(("python", "-m") if outcome.step.module else ("kvproof",))
        lines += ["", f"<details><summary>{outcome.step.name}: {outcome.verdict}</summary>", "", "```text"]
        lines += [f"$ {command} {shlex.join(outcome.step.arguments)}", *outcome.output, "```", "", "</details>"]
    return lines
