"""Fuzzing a target's functions in a worker: one finding a cause, and every case that was not run counted."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from kvproof.harness.check import differential
from kvproof.harness.check.codec import case_from_json
from kvproof.harness.run.fuzz import ANY_LAYOUT, judge
from kvproof.harness.run.replay import register_replayer
from kvproof.harness.run.trial import Failure, Trial, find_causes
from kvproof.harness.targets.contracts import all_contracts, all_properties
from kvproof.harness.targets.device import IsolatedDevice, NoWorkerError
from kvproof.harness.targets.profile import Entry
from kvproof.harness.targets.revisions import open_target, present_revision
from kvproof.harness.targets.spec import TargetSpec, parse_target
from kvproof.kernels.registry import Kernel
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.models.errors import LayoutError
from kvproof.properties.statement import Needs
from kvproof.properties.strategies.cases import Case, KernelProperty
from kvproof.reports import environment
from kvproof.reports.finding import Finding
from kvproof.reports.result import Result
from kvproof.reports.verdict import Status, Verdict

MOST_CAUSES = 6
"""Causes that one run of a contract looks for; the cases of a known cause are counted from then on."""
SHRINK_SECONDS = 30.0
ENGINE = "target"


@dataclass
class Group:
    """Findings of one cause.

    Attributes:
        cause: what fails, without the numbers of the case.
        finding: the smallest case that shows it.
        cases: cases that showed it.
    """

    cause: str
    finding: Finding
    cases: int = 1


@dataclass
class TargetRun:
    """What a run of one contract found.

    Attributes:
        result: as any other check's; its findings are one a cause.
        groups: findings by cause.
        left_out: cases that the target does not take, by reason.
        deaths: what workers died of.
    """

    result: Result
    groups: list[Group] = field(default_factory=list[Group])
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])
    deaths: tuple[str, ...] = ()


def fuzz_target(
    name: str,
    device: IsolatedDevice,
    *,
    subject: ModelConfig | None = None,
    budget_seconds: float = 20.0,
    seed: int = 0,
    case_target: int | None = None,
    most_causes: int = MOST_CAUSES,
    tolerated: bool = True,
    shrink_seconds: float = SHRINK_SECONDS,
) -> TargetRun:
    """Run drawn cases of a contract on a target's function until the budget is spent.

    Args:
        name: contract.
        device: the target's worker.
        subject: configuration whose layout the cases have; None draws layouts freely.
        budget_seconds: wall time for cases; shrinking comes on top (see :func:`find_causes`).
        seed: seed of everything drawn.
        case_target: stop after so many cases that the function took.
        most_causes: stop after so many different causes.
        tolerated: whether cases may hold what a caller should not pass (the contract's *tolerates*); without, a
            run is about what the function does for the callers that it has.
        shrink_seconds: time for shrinking one finding.

    Raises:
        ValueError: there is no such contract.
    """
    kernels, properties = all_contracts(), all_properties()
    if name not in kernels or name not in properties:
        raise ValueError(f"contract is {name!r}; allowed: {', '.join(properties)}")
    kernel, prop = kernels[name], properties[name]
    where = subject.name if subject else ANY_LAYOUT
    empty = Result(where, name, "fuzz", Verdict(Status.NOT_RUN, "not begun"), 0.0, device=device.name)
    empty = replace(empty, target=device.target.label)
    found = device.probe()
    if not found.available:
        return TargetRun(replace(empty, verdict=Verdict(Status.NOT_RUN, found.detail)))
    if name in device.not_offered():
        return TargetRun(replace(empty, verdict=Verdict(Status.UNSUPPORTED, device.not_offered()[name])))
    offered = device.offered()[name]
    trial = Trial(kernel, device, prop, subject, entry_of(device, name), tolerated=tolerated)
    deaths = len(device.worker.deaths)
    begun = time.monotonic()
    hunt = find_causes(
        trial,
        budget_seconds=budget_seconds,
        seed=seed,
        case_target=case_target,
        most_causes=most_causes,
        shrink_seconds=shrink_seconds,
    )
    # From here on nothing is asked of the worker, which may be gone for good.
    notes = {"function": offered["function"], "device": found.detail}
    groups = [_group(failure, name, where, prop, device, seed, notes) for failure in hunt.failures]
    for group in groups:
        group.cases = trial.known[group.cause]
    ran = trial.ran
    if groups:
        verdict = Verdict(Status.FAIL, f"{len(groups)} causes: {groups[0].finding.message}")
    elif trial.lost:
        verdict = Verdict(Status.NOT_RUN, f"after {ran} cases: {trial.lost}")
    else:
        verdict = passed(ran, hunt.events, prop.needs, trial)
    result = replace(
        empty,
        verdict=verdict,
        seconds=time.monotonic() - begun,
        cases=ran,
        events=dict(hunt.events),
        findings=tuple(group.finding for group in groups),
    )
    return TargetRun(result, groups, dict(trial.left_out), tuple(device.worker.deaths[deaths:]))


def passed(ran: int, events: Mapping[str, int], needs: Needs, trial: Trial) -> Verdict:
    """PASS for enough cases; what they never met is said with it. UNKNOWN for fewer."""
    verdict = judge(ran, {}, Needs(needs.cases))
    if not verdict.passed:
        return verdict
    missed = [event for event in needs.events if not events.get(event)]
    if not trial.tolerated:
        missed = [event for event in missed if event not in trial.tolerances]
        verdict = verdict.under("only what the contract lets a caller pass")
    if trial.layouts:
        verdict = verdict.under(f"layouts of {', '.join(trial.layouts)}")
    notes = [*(f"not taken by the target: {words}" for words in trial.left_out)]
    return verdict.under(*notes, *(f"no case had: {event}" for event in missed))


def entry_of(device: IsolatedDevice, name: str) -> Entry | None:
    """The profile's entry of the function that a target offers for a contract; None for this project's own."""
    profile = device.target.profile()
    if profile is None:
        return None
    offered = device.offered()[name]
    entries = [e for e in profile.entries_of(name) if (e.function, e.era) == (offered["function"], offered["era"])]
    return entries[0] if entries else None


def _group(
    failure: Failure,
    name: str,
    subject: str,
    prop: KernelProperty,
    device: IsolatedDevice,
    seed: int,
    notes: Mapping[str, str],
) -> Group:
    finding = Finding(
        engine=ENGINE,
        property_name=name,
        words=prop.words,
        subject=subject,
        case={"kernel": name, "launch": failure.case, "function": notes["function"]},
        message=failure.message,
        expected=failure.failed.expected,
        got=failure.failed.got,
        target=device.target.label,
        device=device.name,
        seed=seed,
        commit=environment.commit(),
        environment={
            **{package: version for package, version in environment.versions().items() if version},
            "device": notes["device"],
        },
    )
    return Group(failure.cause, finding)


# ---- replay -------------------------------------------------------------------------


def replay_target(finding: Finding, target: str = "") -> Verdict:
    """Replay a target's launch, in a worker of its own.

    Args:
        finding: what to replay.
        target: another target to replay it on; by default the finding's.
    """
    with tempfile.TemporaryDirectory(prefix="kvproof-") as scratch:
        try:
            spec = reopened(target or finding.target, Path(scratch))
        except LayoutError as error:
            return Verdict(Status.NOT_RUN, f"the target is not here: {error}")
        return replay_case(finding, IsolatedDevice(spec, finding.device))


def reopened(label: str, scratch: Path) -> TargetSpec:
    """The target of a finding: the folder as it is if that has the finding's revision, else unpacked anew.

    Raises:
        LayoutError: no such target, folder or revision.
    """
    kind, path, revision = parse_target(label)
    if path and revision and present_revision(Path(path)) == revision:
        return open_target(f"{kind}:{path}", scratch)
    return open_target(label, scratch)


def replay_case(finding: Finding, device: IsolatedDevice) -> Verdict:
    """Replay a finding's launch on a device, and end its worker."""
    name = str(finding.case.get("kernel"))
    kernels, properties = all_contracts(), all_properties()
    if name not in kernels:
        return Verdict(Status.UNKNOWN, f"there is no contract {name!r} any more")
    try:
        found = device.probe()
        if not found.available:
            return Verdict(Status.NOT_RUN, f"device {device.name} is not here: {found.detail}")
        if name in device.not_offered():
            return Verdict(Status.NOT_RUN, device.not_offered()[name])
        case = case_from_json(finding.case["launch"])
        return _verdict(kernels[name], device, case, properties[name])
    finally:
        device.close()


def _verdict(kernel: Kernel, device: IsolatedDevice, case: Case, prop: KernelProperty) -> Verdict:
    try:
        differential.check_case(kernel, device, case, prop.explain)
    except differential.CaseFailed as failure:
        return Verdict(Status.FAIL, f"{failure.kind}: {failure.message}")
    except NoWorkerError as error:
        return Verdict(Status.NOT_RUN, str(error))
    except ValueError as error:
        return Verdict(Status.UNKNOWN, f"the case does not fit the present contract: {error}")
    return Verdict(Status.PASS, bounds=("this case",))


register_replayer(ENGINE, replay_target)
