"""Fuzzing one property on one subject: cases, events, a shrunk finding, a verdict."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from hypothesis import strategies as st

from kvproof.harness.check import differential
from kvproof.harness.check.choosers import ClaimFailed, DrawChooser
from kvproof.harness.check.choosers import check_case as check_statement_case
from kvproof.harness.check.codec import case_from_json, case_json
from kvproof.harness.devices.base import Device, DeviceLostError
from kvproof.harness.run.exploration import Abandon, Exploration, Progress, Shrinking, explore
from kvproof.harness.run.reduce import reduced
from kvproof.kernels.registry import Kernel
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.models.errors import LayoutError
from kvproof.properties.statement import Needs, Statement
from kvproof.properties.strategies.cases import Case, KernelProperty, all_kernel_properties
from kvproof.properties.strategies.systems import system_kind
from kvproof.reports import environment
from kvproof.reports.finding import Finding, canonical_json
from kvproof.reports.result import Result
from kvproof.reports.verdict import Status, Verdict

ANY_LAYOUT = "any layout"
"""Subject of a run that draws its layouts freely."""


def fuzz_kernel(
    kernel: Kernel,
    device: Device,
    *,
    subject: ModelConfig | None = None,
    budget_seconds: float = 60.0,
    seed: int = 0,
    case_target: int | None = None,
    until_needs: bool = False,
    first_chunk: int = 0,
    on_progress: Progress | None = None,
    prop: KernelProperty | None = None,
) -> Result:
    """Run drawn launches of a kernel on a device and compare each with its contract.

    Args:
        kernel: the kernel.
        device: where it runs.
        subject: configuration whose layout the cases have; None draws layouts freely.
        budget_seconds: wall time for cases; shrinking a failing one comes on top.
        seed: seed of everything drawn.
        case_target: stop after so many cases.
        until_needs: stop as soon as the property has seen what it needs.
        first_chunk: see :func:`~kvproof.harness.run.exploration.explore`.
        on_progress: told (cases, seconds) after each case.
        prop: the property; by default the registered one of that kernel name.

    Raises:
        ValueError: no property is registered for the kernel.
    """
    prop = prop or _property_of(kernel)
    name = subject.name if subject else ANY_LAYOUT
    found = device.probe()
    result = Result(name, kernel.name, "fuzz", Verdict(Status.NOT_RUN, found.detail), 0.0, device=device.name)
    if not found.available:
        return result
    cases = prop.cases(subject)

    def trial(data: st.DataObject, shrinking: Shrinking) -> Iterable[str]:
        case = data.draw(cases)
        try:
            differential.check_case(kernel, device, case, prop.explain)
        except differential.CaseFailed as failure:
            raise shrinking.failed(_Met.of(case, failure)) from failure
        except DeviceLostError as error:
            failure = differential.CaseFailed("device", str(error), "the launch runs", str(error))
            raise Abandon(_Met.of(case, failure)) from error
        return case.events

    def finding(met: _Met) -> Finding:
        return Finding(
            engine="kernel",
            property_name=kernel.name,
            words=prop.words,
            subject=name,
            case={"kernel": kernel.name, "launch": json.loads(zlib.decompress(met.launch))},
            message=f"{met.kind}: {met.message}",
            expected=met.expected,
            got=met.got,
            device=device.name,
            seed=seed,
            commit=environment.commit(),
            environment={**_versions(), "device": found.detail},
        )

    run = explore(
        trial,
        budget_seconds=budget_seconds,
        seed=seed,
        case_target=case_target,
        on_progress=on_progress,
        enough=partial(satisfied, prop.needs) if until_needs else None,
        first_chunk=first_chunk,
    )
    if run.failure is not None and not run.note:
        run = replace(run, failure=_smallest(kernel, device, prop, run.failure))
    return _finish(result, run, prop.needs, finding)


def _smallest(kernel: Kernel, device: Device, prop: KernelProperty, met: _Met) -> _Met:
    """A failing launch with its numbers lowered as far as it still fails in the same way."""

    def failing(case: Case) -> differential.CaseFailed | None:
        try:
            differential.check_case(kernel, device, case, prop.explain)
        except differential.CaseFailed as failure:
            # In the same way: the same kind of failure, of the same tensor.
            same = (failure.kind, failure.message.split()[0]) == (met.kind, met.message.split()[0])
            return failure if same else None
        except (differential.BadCaseError, LayoutError):
            return None
        return None

    # A launch that the device refused says nothing about numbers.
    if met.kind == "device":
        return met
    try:
        found = reduced(kernel, case_from_json(json.loads(zlib.decompress(met.launch))), failing)
    except DeviceLostError:
        return met
    if found is None:
        return met
    return _Met.of(*found)


@dataclass(frozen=True)
class _Met:
    """A failing case, small: shrinking keeps every one that it meets, and an exception would keep its frames."""

    launch: bytes
    kind: str
    message: str
    expected: str
    got: str

    @classmethod
    def of(cls, case: Case, failure: differential.CaseFailed) -> _Met:
        launch = zlib.compress(canonical_json(case_json(case)).encode())
        return cls(launch, failure.kind, failure.message, failure.expected, failure.got)


def fuzz_statement(
    statement: Statement,
    *,
    subject: ModelConfig | None = None,
    budget_seconds: float = 60.0,
    seed: int = 0,
    case_target: int | None = None,
    until_needs: bool = False,
    first_chunk: int = 0,
    on_progress: Progress | None = None,
    slip: int = 0,
    systems: st.SearchStrategy[Any] | None = None,
) -> Result:
    """Check a statement on drawn systems and values.

    Args:
        statement: the statement.
        subject: configuration whose systems are drawn; None draws any.
        budget_seconds, seed, case_target, until_needs, first_chunk, on_progress: as :func:`fuzz_kernel`.
        slip: 1 checks the statement's twin, which must fail.
        systems: draws the systems; by default those of the subject.

    Raises:
        ValueError: no strategy draws systems of the statement's kind.
    """
    kind = system_kind(statement.system)
    drawn = kind.draw(subject) if systems is None else systems
    name = subject.name if subject else ANY_LAYOUT
    result = Result(name, statement.name, "fuzz", Verdict(Status.NOT_RUN, "not begun"), 0.0)

    def trial(data: st.DataObject, shrinking: Shrinking) -> Iterable[str]:
        system = data.draw(drawn)
        chooser = DrawChooser(draw=data.draw)
        try:
            check_statement_case(statement.body, system, chooser, slip)
        except ClaimFailed as failure:
            case = {"system": kind.to_json(system), "values": failure.values, "slip": slip}
            raise shrinking.failed((case, failure)) from failure
        return chooser.events

    def finding(payload: Any) -> Finding:
        case, failure = payload
        return Finding(
            engine="layout",
            property_name=statement.name,
            words=statement.words,
            subject=name,
            case=case,
            message=str(failure),
            expected=f"lemma {failure.lemma!r} holds" if failure.lemma else "the claim holds",
            got=failure.detail or "it does not",
            seed=seed,
            commit=environment.commit(),
            environment=_versions(),
        )

    run = explore(
        trial,
        budget_seconds=budget_seconds,
        seed=seed,
        case_target=case_target,
        on_progress=on_progress,
        enough=partial(satisfied, statement.needs) if until_needs else None,
        first_chunk=first_chunk,
    )
    return _finish(result, run, statement.needs, finding)


def _property_of(kernel: Kernel) -> KernelProperty:
    known = all_kernel_properties()
    if kernel.name not in known:
        raise ValueError(f"kernel {kernel.name!r} has no property to fuzz; known: {', '.join(known)}")
    return known[kernel.name]


def _versions() -> dict[str, str]:
    return {package: version for package, version in environment.versions().items() if version}


def _finish(result: Result, run: Exploration, needs: Needs, finding: Any) -> Result:
    findings: tuple[Finding, ...] = ()
    if run.failure is not None:
        found: Finding = finding(run.failure)
        if run.note:
            found = replace(found, message=f"{found.message} ({run.note})")
        findings = (found,)
        verdict = Verdict(Status.FAIL, found.message)
    else:
        verdict = judge(run.cases, run.events, needs)
    return replace(
        result, verdict=verdict, seconds=run.seconds, cases=run.cases, events=run.events, findings=findings
    )


def satisfied(needs: Needs, cases: int, events: Mapping[str, int]) -> bool:
    """Whether a run has seen what its property needs."""
    return cases >= needs.cases and all(events.get(event, 0) >= count for event, count in needs.events.items())


def judge(cases: int, events: Mapping[str, int], needs: Needs) -> Verdict:
    """PASS if a run without a failure has seen what the property needs, else UNKNOWN."""
    short = [] if cases >= needs.cases else [f"ran {cases} of the {needs.cases} cases it needs"]
    short += [
        f"met {event!r} in {events.get(event, 0)} of the {count} cases it needs"
        for event, count in needs.events.items()
        if events.get(event, 0) < count
    ]
    if short:
        return Verdict(Status.UNKNOWN, "; ".join(short))
    return Verdict(Status.PASS, bounds=(f"{cases} drawn cases",))
