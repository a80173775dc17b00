"""Fuzzing a joint obligation: drawn schedules on a device, a shrunk finding, a verdict."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from hypothesis import strategies as st

from kvproof.harness.devices.base import Device, DeviceError, DeviceLostError
from kvproof.harness.run.exploration import SHRINK_SECONDS, Abandon, Progress, Shrinking, explore
from kvproof.harness.run.forward.launches import Checks, JointFailed, Launches
from kvproof.harness.run.forward.run import run_schedule
from kvproof.harness.run.fuzz import ANY_LAYOUT, judge, satisfied
from kvproof.kernels.registry import Kernel, all_kernels
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.properties.joint.draws import events, schedules
from kvproof.properties.joint.obligations import Obligation
from kvproof.properties.joint.schedule import Schedule, schedule_from_json, schedule_json
from kvproof.properties.joint.transforms import variants
from kvproof.reports import environment
from kvproof.reports.finding import Finding, canonical_json
from kvproof.reports.result import Result
from kvproof.reports.verdict import Status, Verdict

ENGINE = "joint"

Case = Mapping[str, Any]
"""A schedule as JSON, and under "variant" another that must read the same."""


def check_case(obligation: str, case: Case, launches: Launches) -> frozenset[str]:
    """Run one case of an obligation.

    Returns:
        The events that it showed.

    Raises:
        JointFailed: the obligation does not hold.
        DeviceLostError: the device cannot be used any more.
    """
    schedule = schedule_from_json(case["schedule"])
    active = () if obligation == "independence" else (obligation,)
    checks = Checks(active)
    try:
        world = run_schedule(schedule, launches, checks)
        if obligation == "independence":
            other = run_schedule(schedule_from_json(case["variant"]), launches, Checks())
            _compare(world.reads, other.reads)
    except DeviceLostError:
        raise
    except DeviceError as error:
        raise JointFailed(obligation, "a launch failed", "every launch runs", str(error)) from error
    return events(schedule) | checks.events | frozenset(case.get("changes", ()))


def _compare(first: Mapping[Any, list[Any]], second: Mapping[Any, list[Any]]) -> None:
    for key in [*first, *(key for key in second if key not in first)]:
        if first.get(key) != second.get(key):
            request, pos, ratio = key
            message = f"reads of request {request} at position {pos}, ratio {ratio}"
            raise JointFailed("independence", message, str(first.get(key)), str(second.get(key)))


def cases(obligation: str, subject: ModelConfig | None) -> st.SearchStrategy[dict[str, Any]]:
    """Cases of an obligation, for one configuration or any."""

    @st.composite
    def draw_case(draw: st.DrawFn) -> dict[str, Any]:
        schedule: Schedule = draw(schedules(subject))
        case: dict[str, Any] = {"schedule": schedule_json(schedule)}
        if obligation == "independence":
            variant = draw(variants(schedule))
            case |= {"variant": schedule_json(variant.schedule), "changes": sorted(variant.changes)}
        return case

    return draw_case()


def fuzz_joint(
    obligation: Obligation,
    device: Device,
    *,
    subject: ModelConfig | None = None,
    kernels: Mapping[str, Kernel] | None = None,
    budget_seconds: float = 60.0,
    seed: int = 0,
    case_target: int | None = None,
    until_needs: bool = False,
    first_chunk: int = 0,
    on_progress: Progress | None = None,
    shrink_seconds: float = SHRINK_SECONDS,
    drawn: st.SearchStrategy[dict[str, Any]] | None = None,
) -> Result:
    """Run drawn schedules on a device and check one obligation.

    Args:
        obligation: which.
        device: where the kernels run.
        subject: configuration whose pools are drawn; None draws any.
        kernels: kernels by name, by default this project's.
        budget_seconds, seed, case_target, until_needs, first_chunk, on_progress: as ``fuzz_kernel`` takes them.
        shrink_seconds: time for shrinking.
        drawn: draws the cases; by default those of the subject.
    """
    name = subject.name if subject else ANY_LAYOUT
    found = device.probe()
    result = Result(name, obligation.name, "fuzz", Verdict(Status.NOT_RUN, found.detail), 0.0, device=device.name)
    if not found.available:
        return result
    launches = Launches(device, kernels or all_kernels())
    needs = obligation.needs if drawn is not None else obligation.needs_of([subject])
    drawn = cases(obligation.name, subject) if drawn is None else drawn

    def trial(data: st.DataObject, shrinking: Shrinking) -> Iterable[str]:
        case = data.draw(drawn)
        try:
            return check_case(obligation.name, case, launches)
        except JointFailed as failure:
            raise shrinking.failed((case, failure)) from failure
        except DeviceLostError as error:
            lost = JointFailed(obligation.name, "the device was lost", "every launch runs", str(error))
            raise Abandon((case, lost)) from error

    def finding(payload: Any) -> Finding:
        case, failure = payload
        return Finding(
            engine=ENGINE,
            property_name=obligation.name,
            words=obligation.words,
            subject=name,
            case=json.loads(canonical_json(case)),
            message=str(failure),
            expected=failure.expected,
            got=failure.got,
            device=device.name,
            seed=seed,
            commit=environment.commit(),
            environment={"device": found.detail},
        )

    run = explore(
        trial,
        budget_seconds=budget_seconds,
        seed=seed,
        case_target=case_target,
        on_progress=on_progress,
        enough=partial(satisfied, needs) if until_needs else None,
        first_chunk=first_chunk,
        shrink_seconds=shrink_seconds,
    )
    findings = () if run.failure is None else (finding(run.failure),)
    verdict = Verdict(Status.FAIL, findings[0].message) if findings else judge(run.cases, run.events, needs)
    return replace(
        result, verdict=verdict, seconds=run.seconds, cases=run.cases, events=run.events, findings=findings
    )
