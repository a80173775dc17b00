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
from itertools import chain
from typing import Any, TypeAlias

from kvproof.harness.cli.errors import UsageError
from kvproof.harness.cli.proving import EVERYTHING_ANEW, ProofChoice, run_proofs, theorem_pairs
from kvproof.harness.cli.systems import EVERY_RANK, proof_subjects, statements_of, subject_names
from kvproof.harness.devices.base import Availability, Device
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.properties.joint.obligations import OBLIGATIONS
from kvproof.properties.statement import Needs, all_statements
from kvproof.reports.errors import ReportError
from kvproof.reports.finding import Finding
from kvproof.reports.result import Result
from kvproof.reports.verdict import Status, Verdict

PACKAGES = {
    "numpy": "everything",
    "hypothesis": "fuzzing",
    "torch": "running kernels",
    "triton": "running kernels and reading their IR",
    "ml-dtypes": "the device ir",
    "z3-solver": "proofs",
    "cvc5": "a second opinion on proofs",
}
"""Distributions that a machine may lack, and what each is for."""

_OWN_BUILD = "install the build that belongs to this machine's GPU; without one, the extra kvproof[torch]"
INSTALL_HINTS = {name: f"pip install {name}" for name in PACKAGES} | {
    "torch": _OWN_BUILD,
    "triton": _OWN_BUILD,
}
"""How to get each."""

_DISTRIBUTIONS = {"z3": "z3-solver", "ml_dtypes": "ml-dtypes"}
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
    """The devices of a ``--device`` value.

    "all" means every known device. "auto" leaves the interpreter out where the same machine can run the compiled
    IR: the interpreter takes several times as long over a case, and says less, since it does not compute as a
    GPU does.

    Raises:
        UsageError: no device has that name.
    """
    from kvproof.harness.devices.registry import all_devices

    known = {device.name: device for device in all_devices()}
    if wanted in known:
        return [FoundDevice(known[wanted], known[wanted].probe())]
    if wanted not in {"auto", "all"}:
        raise UsageError(f"--device is {wanted!r}; allowed: auto, all, {', '.join(known)}")
    found = {name: FoundDevice(device, device.probe()) for name, device in known.items()}
    if wanted == "auto" and found["ir"].availability.available:
        del found["interpret"]
    return list(found.values())


def planned_proofs(
    subjects: Sequence[ModelConfig], systems: Sequence[str], choice: ProofChoice = EVERYTHING_ANEW
) -> list[tuple[str, str]]:
    """(subject, statement) of every proof, by name."""
    pairs = [
        (name, statement.name)
        for system in systems
        for name in subject_names(system, subjects)
        for statement in statements_of(system)
    ]
    return [*pairs, *(theorem_pairs() if choice.theorems else [])]


def prove(
    subjects: Sequence[ModelConfig],
    systems: Sequence[str],
    choice: ProofChoice = EVERYTHING_ANEW,
    on_wait: Callable[[str], None] | None = None,
) -> Iterator[Result]:
    """Prove every statement of each system for its subjects. What is missing or breaks becomes a verdict."""
    seen: set[tuple[str, str]] = set()
    begun = time.monotonic()
    try:
        for result in run_proofs(proof_subjects(systems, subjects), choice, on_wait):
            seen.add((result.subject, result.property_name))
            yield result
    except Exception as error:
        verdict = _verdict_of(error)
        for subject, statement in planned_proofs(subjects, systems, choice):
            if (subject, statement) not in seen:
                seconds = time.monotonic() - begun
                begun += seconds
                yield Result(subject, statement, "prove", verdict, seconds)


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


# Measured until every kernel had seen what it needs, against one statement.
_DEVICE_WEIGHTS = {"interpret": 5.0}
_OTHER_DEVICE_WEIGHT = 2.5


MIXED_ABOVE = 3
"""With more configurations than this, a fuzzed property draws from all of them in turn and has one row."""


def fuzz_tasks(
    subjects: Sequence[ModelConfig],
    devices: Sequence[FoundDevice],
    *,
    any_layout: bool,
    systems: Sequence[str] = ("row-space", "schema", "scratch"),
) -> list[FuzzTask]:
    """Every statement, and every kernel and joint obligation on every device that is here.

    Few configurations are fuzzed one by one. Many would leave each property too little of a short budget to see
    what it needs, so then one task draws from all of them.

    Args:
        subjects: configurations.
        devices: devices.
        any_layout: whether freely drawn layouts are a subject too.
        systems: whose statements and kernels.
    """
    from kvproof.harness.run.fuzz import ANY_LAYOUT
    from kvproof.properties.strategies.cases import all_kernel_properties

    one_by_one = len(subjects) <= MIXED_ABOVE
    sources: dict[str, _Source] = (
        {s.name: (s,) for s in subjects} if one_by_one else {ALL_SUBJECTS: tuple(subjects)}
    )
    # A schema follows from a configuration, a rank's share from a model family; only a row space can be any.
    by_system = {"row-space": dict(sources), "schema": dict(sources), "scratch": {EVERY_RANK: (None,)}}
    if any_layout:
        sources[ANY_LAYOUT] = by_system["row-space"][ANY_LAYOUT] = (None,)
    tasks = [
        FuzzTask(name, statement.name, "", statement.needs, partial(_fuzz_statement, statement.name, name, source))
        for system in systems
        for name, source in by_system[system].items()
        for statement in statements_of(system)
    ]
    # A case on a device takes far longer than one of a statement, so a kernel has one task for all sources.
    together = next(iter(sources)) if len(sources) == 1 else ALL_SUBJECTS
    # Half of its cases have any layout, where there are more kinds of cases.
    drawn = tuple(source for source in chain(*sources.values()) if source is not None)
    every = (*[None] * (max(len(drawn), 1) if any_layout else 0), *drawn)
    for found in devices:
        if found.availability.available:
            weight = _DEVICE_WEIGHTS.get(found.name, _OTHER_DEVICE_WEIGHT)
            for name, prop in all_kernel_properties().items():
                if prop.system not in systems:
                    continue
                run = partial(_fuzz_kernel, name, found.name, together, every)
                tasks.append(FuzzTask(together, name, found.name, prop.needs, run, weight))
            if "row-space" in systems:
                for name, obligation in OBLIGATIONS.items():
                    run = partial(_fuzz_joint, name, found.name, together, every)
                    needs = obligation.needs_of(every)
                    tasks.append(FuzzTask(together, name, found.name, needs, run, weight))
    return tasks


_Source: TypeAlias = tuple[ModelConfig | None, ...]
"""Where cases are drawn from: configurations, or None for any layout."""


def _fuzz_statement(name: str, subject: str, source: _Source, turn: Turn) -> Result:
    from hypothesis import strategies as st

    from kvproof.harness.run.fuzz import fuzz_statement
    from kvproof.properties.strategies.systems import system_kind

    statement = all_statements()[name]
    kind = system_kind(statement.system)
    drawn = st.sampled_from(source).flatmap(kind.draw)
    return _named(subject, fuzz_statement(statement, systems=drawn, **turn.options))


def _fuzz_kernel(name: str, device: str, subject: str, source: _Source, turn: Turn) -> Result:
    from hypothesis import strategies as st

    from kvproof.harness.devices.registry import find_device
    from kvproof.harness.run.fuzz import fuzz_kernel
    from kvproof.kernels.registry import all_kernels
    from kvproof.properties.strategies.cases import all_kernel_properties

    prop = all_kernel_properties()[name]
    drawn = replace(prop, cases=lambda _: st.sampled_from(source).flatmap(prop.cases))
    return _named(subject, fuzz_kernel(all_kernels()[name], find_device(device), prop=drawn, **turn.options))


def _fuzz_joint(name: str, device: str, subject: str, source: _Source, turn: Turn) -> Result:
    from hypothesis import strategies as st

    from kvproof.harness.devices.registry import find_device
    from kvproof.harness.run.forward.fuzz import cases, fuzz_joint

    drawn = st.sampled_from(source).flatmap(partial(cases, name))
    obligation = replace(OBLIGATIONS[name], needs=OBLIGATIONS[name].needs_of(source))
    return _named(subject, fuzz_joint(obligation, find_device(device), drawn=drawn, **turn.options))


def _named(subject: str, result: Result) -> Result:
    """The fuzzer got its cases from a source without a name; here it has one."""
    findings = tuple(replace(finding, subject=subject) for finding in result.findings)
    return replace(result, subject=subject, findings=findings)


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
            return Verdict(Status.NOT_RUN, f"{package} is not installed: {INSTALL_HINTS[package]}")
    if os.environ.get("KVPROOF_DEBUG"):
        traceback.print_exception(error)
    text = " ".join(str(error).split()) or "no message"
    return Verdict(Status.UNKNOWN, f"the engine broke: {type(error).__name__}: {text[:300]}")
