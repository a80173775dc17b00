"""The engines as the commands call them: loaded when first used, with a verdict where something is missing.

Nothing here decides whether a property holds; it decides only that what could not be asked is not a PASS.
"""

from __future__ import annotations

import os
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kvproof.harness.cli.errors import UsageError
from kvproof.harness.devices.base import Availability, Device
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.properties.statement import Needs, Statement, all_statements
from kvproof.reports.errors import ReportError
from kvproof.reports.finding import Finding
from kvproof.reports.result import Result
from kvproof.reports.verdict import Status, Verdict

PACKAGES = {
    "numpy": "everything",
    "hypothesis": "fuzzing",
    "torch": "running kernels",
    "triton": "running kernels and reading their IR",
    "z3-solver": "proofs",
    "cvc5": "a second opinion on proofs",
}
"""Distributions that a machine may lack, and what each is for."""

_OWN_BUILD = "pip install 'kvproof[torch]' on a CPU; on a GPU the build that belongs to it"
INSTALL_HINTS = {name: f"pip install {name}" for name in PACKAGES} | {
    "torch": _OWN_BUILD,
    "triton": _OWN_BUILD,
}
"""How to get each."""

_DISTRIBUTIONS = {"z3": "z3-solver"}
"""Where a module is not named like its distribution."""

ALL_SUBJECTS = "all configurations"


@dataclass(frozen=True)
class FoundDevice:
    """A device that was asked for, and whether it is here."""

    device: Device
    availability: Availability

    @property
    def name(self) -> str:
        """Device name."""
        return self.device.name


def find_devices(wanted: str) -> list[FoundDevice]:
    """The devices of a ``--device`` value: all known ones for "auto", else the one of that name.

    Raises:
        UsageError: no device has that name.
    """
    from kvproof.harness.devices.registry import all_devices

    known = {device.name: device for device in all_devices()}
    if wanted != "auto" and wanted not in known:
        raise UsageError(f"--device is {wanted!r}; allowed: auto, {', '.join(known)}")
    chosen = known.values() if wanted == "auto" else [known[wanted]]
    return [FoundDevice(device, device.probe()) for device in chosen]


def layout_statements() -> list[Statement]:
    """The statements about a layout, which are checked for every configuration."""
    return list(all_statements("row-space").values())


def prove(subjects: Sequence[ModelConfig]) -> Iterator[Result]:
    """Prove every statement for every configuration. What is missing or breaks becomes a verdict."""
    from kvproof.harness.prove import campaign

    statements = layout_statements()
    seen: set[tuple[str, str]] = set()
    begun = time.monotonic()
    try:
        for result in campaign.prove(subjects, statements=[statement.name for statement in statements]):
            seen.add((result.subject, result.property_name))
            yield result
    except Exception as error:
        verdict = _verdict_of(error)
        for subject in subjects:
            for statement in statements:
                if (subject.name, statement.name) not in seen:
                    seconds = time.monotonic() - begun
                    begun += seconds
                    yield Result(subject.name, statement.name, "prove", verdict, seconds)


@dataclass(frozen=True)
class Turn:
    """A stretch of fuzzing one property.

    Attributes:
        budget_seconds: wall time.
        seed: seed of the run.
        number: how many turns the property has had before; a later turn draws other cases.
        until_needs: stop as soon as this turn has seen what the property needs.
    """

    budget_seconds: float
    seed: int
    number: int = 0
    until_needs: bool = True

    @property
    def options(self) -> dict[str, Any]:
        """The turn as the fuzzer's arguments."""
        return {
            "budget_seconds": self.budget_seconds,
            "seed": self.seed,
            "until_needs": self.until_needs,
            "first_chunk": self.number * _CHUNKS_OF_A_TURN,
        }


_CHUNKS_OF_A_TURN = 10_000
"""More than a turn ever gets through, so that turns of one seed share no case."""


@dataclass(frozen=True)
class FuzzTask:
    """One property to be fuzzed on one subject. Can be sent to another process.

    Attributes:
        subject: configuration, or what stands for several.
        property_name: property.
        device: device name; empty for a statement.
        needs: what has to be seen for a PASS.
        run: fuzzes for a turn.
        weight: share of the budget, relative to other tasks.
    """

    subject: str
    property_name: str
    device: str
    needs: Needs
    run: Callable[[Turn], Result]
    weight: float = 1.0

    def undecided(self, verdict: Verdict, seconds: float) -> Result:
        """The result where the engine gave none."""
        return Result(self.subject, self.property_name, "fuzz", verdict, seconds, device=self.device)


def attempt(task: FuzzTask, turn: Turn) -> tuple[Result, bool]:
    """Run a task for a turn. What is missing or breaks becomes a verdict.

    Returns:
        (result, whether the engine came to an end by itself).
    """
    begun = time.monotonic()
    try:
        return task.run(turn), True
    except Exception as error:
        return task.undecided(_verdict_of(error), time.monotonic() - begun), False


def merged(task: FuzzTask, earlier: Result, later: Result) -> Result:
    """Two turns of a task that both came to an end, as one result."""
    from kvproof.harness.run.fuzz import judge

    cases = earlier.cases + later.cases
    events = dict(Counter(earlier.events) + Counter(later.events))
    failed = Status.FAIL in {earlier.verdict.status, later.verdict.status}
    return replace(
        later,
        verdict=later.verdict if failed else judge(cases, events, task.needs),
        seconds=earlier.seconds + later.seconds,
        cases=cases,
        events=events,
    )


# A case on the interpreter takes some hundred times as long as a statement's, elsewhere some times.
_DEVICE_WEIGHTS = {"interpret": 8.0}
_OTHER_DEVICE_WEIGHT = 3.0


def fuzz_tasks(
    subjects: Sequence[ModelConfig], devices: Sequence[FoundDevice], *, any_layout: bool
) -> list[FuzzTask]:
    """Every statement for every configuration, and every kernel on every device that is here.

    A kernel's cases are drawn from all configurations in turn, since a device takes far longer over a case.

    Args:
        subjects: configurations.
        devices: devices.
        any_layout: whether freely drawn layouts are a subject too.
    """
    from kvproof.harness.run.fuzz import ANY_LAYOUT
    from kvproof.properties.strategies.cases import all_kernel_properties

    drawn: list[ModelConfig | None] = [*subjects, *([None] if any_layout else [])]
    names = [ANY_LAYOUT if subject is None else subject.name for subject in drawn]
    tasks = [
        FuzzTask(name, statement.name, "", statement.needs, partial(_fuzz_statement, statement.name, subject))
        for subject, name in zip(drawn, names, strict=True)
        for statement in layout_statements()
    ]
    together = names[0] if len(names) == 1 else ALL_SUBJECTS
    for found in devices:
        if found.availability.available:
            weight = _DEVICE_WEIGHTS.get(found.name, _OTHER_DEVICE_WEIGHT)
            for name, prop in all_kernel_properties().items():
                run = partial(_fuzz_kernel, name, found.name, tuple(drawn))
                tasks.append(FuzzTask(together, name, found.name, prop.needs, run, weight))
    return tasks


def _fuzz_statement(name: str, subject: ModelConfig | None, turn: Turn) -> Result:
    from kvproof.harness.run.fuzz import fuzz_statement

    return fuzz_statement(all_statements()[name], subject=subject, **turn.options)


def _fuzz_kernel(name: str, device: str, subjects: Sequence[ModelConfig | None], turn: Turn) -> Result:
    from hypothesis import strategies as st

    from kvproof.harness.devices.registry import find_device
    from kvproof.harness.run.fuzz import fuzz_kernel
    from kvproof.kernels.registry import all_kernels
    from kvproof.properties.strategies.cases import all_kernel_properties

    kernel, found = all_kernels()[name], find_device(device)
    if len(subjects) == 1:
        return fuzz_kernel(kernel, found, subject=subjects[0], **turn.options)
    prop = all_kernel_properties()[name]
    mixed = replace(prop, cases=lambda _: st.one_of([prop.cases(subject) for subject in subjects]))
    result = fuzz_kernel(kernel, found, prop=mixed, **turn.options)
    # The fuzzer saw one source of cases without a name; here it has one.
    findings = tuple(replace(finding, subject=ALL_SUBJECTS) for finding in result.findings)
    return replace(result, subject=ALL_SUBJECTS, findings=findings)


def absent_devices(devices: Sequence[FoundDevice]) -> list[Result]:
    """NOT_RUN for each device that is not here: one result for all its kernels."""
    return [
        Result(
            ALL_SUBJECTS,
            "every kernel",
            "fuzz",
            Verdict(Status.NOT_RUN, f"device {found.name} is not here: {found.availability.detail}"),
            0.0,
            device=found.name,
        )
        for found in devices
        if not found.availability.available
    ]


def replay(finding: Finding) -> Result:
    """Run a finding's case again.

    Raises:
        ReportError: the finding's case is none that its engine could have written.
    """
    from kvproof.harness.run.replay import replay as again

    try:
        return again(finding)
    except ValueError as error:
        raise ReportError(str(error)) from error


def _verdict_of(error: Exception) -> Verdict:
    """A missing package means that nothing ran; anything else unforeseen leaves the question undecided."""
    if isinstance(error, ModuleNotFoundError):
        package = _DISTRIBUTIONS.get(error.name or "", error.name)
        if package in INSTALL_HINTS:
            return Verdict(Status.NOT_RUN, f"{package} is not installed; {INSTALL_HINTS[package]}")
    if os.environ.get("KVPROOF_DEBUG"):
        traceback.print_exception(error)
    text = " ".join(str(error).split()) or "no message"
    return Verdict(Status.UNKNOWN, f"the engine broke: {type(error).__name__}: {text[:300]}")
