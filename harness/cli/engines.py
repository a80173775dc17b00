"""The engines as the commands call them: loaded when first used, with a verdict where something is missing.

Nothing here decides whether a property holds; it decides only that what could not be asked is not a PASS.
"""

from __future__ import annotations

import importlib
import os
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kvproof.harness.cli.errors import UsageError
from kvproof.harness.devices.base import Availability, Device
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.properties.statement import Statement, all_statements
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
    known = {device.name: device for device in _load("kvproof.harness.devices.registry", "all_devices")()}
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
class FuzzTask:
    """One property to be fuzzed on one subject.

    Attributes:
        subject: configuration.
        property_name: property.
        device: device name; empty for a statement.
        run: called with (budget in seconds, seed).
    """

    subject: str
    property_name: str
    device: str
    run: Callable[[float, int], Result]

    def __call__(self, budget_seconds: float, seed: int) -> Result:
        """Fuzz for at most so long. What is missing or breaks becomes a verdict."""
        begun = time.monotonic()
        try:
            return self.run(budget_seconds, seed)
        except Exception as error:
            verdict = _verdict_of(error)
            seconds = time.monotonic() - begun
            return Result(self.subject, self.property_name, "fuzz", verdict, seconds, device=self.device)


def fuzz_tasks(subjects: Sequence[ModelConfig], devices: Sequence[FoundDevice]) -> list[FuzzTask]:
    """Every statement, and every kernel on every device that is here, for every configuration."""
    from kvproof.kernels.registry import all_kernels

    kernels = list(all_kernels().values())
    tasks: list[FuzzTask] = []
    for subject in subjects:
        tasks += [_statement_task(statement, subject) for statement in layout_statements()]
        for found in devices:
            if found.availability.available:
                tasks += [_kernel_task(kernel, found.device, subject) for kernel in kernels]
    return tasks


def absent_devices(devices: Sequence[FoundDevice]) -> list[Result]:
    """NOT_RUN for every kernel on every device that is not here."""
    from kvproof.kernels.registry import all_kernels

    return [
        Result(
            ALL_SUBJECTS,
            kernel.name,
            "fuzz",
            Verdict(Status.NOT_RUN, f"device {found.name} is not here: {found.availability.detail}"),
            0.0,
            device=found.name,
        )
        for found in devices
        if not found.availability.available
        for kernel in all_kernels().values()
    ]


def _statement_task(statement: Statement, subject: ModelConfig) -> FuzzTask:
    def run(budget_seconds: float, seed: int) -> Result:
        fuzz = _load("kvproof.harness.run.fuzz", "fuzz_statement")
        return fuzz(statement, subject=subject, budget_seconds=budget_seconds, seed=seed)

    return FuzzTask(subject.name, statement.name, "", run)


def _kernel_task(kernel: Any, device: Device, subject: ModelConfig) -> FuzzTask:
    def run(budget_seconds: float, seed: int) -> Result:
        fuzz = _load("kvproof.harness.run.fuzz", "fuzz_kernel")
        return fuzz(kernel, device, subject=subject, budget_seconds=budget_seconds, seed=seed)

    return FuzzTask(subject.name, kernel.name, device.name, run)


def replay(finding: Any) -> Result:
    """Run a finding's case again."""
    return _load("kvproof.harness.run.replay", "replay")(finding)


def _load(module: str, name: str) -> Callable[..., Any]:
    return getattr(importlib.import_module(module), name)


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
