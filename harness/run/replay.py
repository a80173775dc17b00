"""Running a finding's case again. Each engine that makes findings registers what repeats one."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kvproof.harness.check import differential
from kvproof.harness.check.choosers import ClaimFailed, ReplayChooser, Vacuous
from kvproof.harness.check.choosers import check_case as check_statement_case
from kvproof.harness.check.codec import case_from_json
from kvproof.harness.devices.base import DeviceLostError
from kvproof.harness.devices.registry import find_device
from kvproof.harness.prove.replay import replay_finding
from kvproof.kernels.registry import all_kernels
from kvproof.properties.statement import all_statements
from kvproof.properties.strategies.cases import all_kernel_properties
from kvproof.properties.strategies.systems import system_kind
from kvproof.reports.finding import Finding
from kvproof.reports.result import Result
from kvproof.reports.verdict import Status, Verdict

Replayer = Callable[[Finding], Verdict]
"""Runs a finding's case again: FAIL if it still fails, PASS if it does not any more, else why it cannot be run."""

_replayers: dict[str, Replayer] = {}

_MODULES = {
    "joint": "kvproof.harness.run.forward.replay",
    "target": "kvproof.harness.run.targets",
    "host": "kvproof.harness.run.host_modules",
    "simulate": "kvproof.harness.simulate.replay",
}
"""Modules that register an engine's replayer and themselves need this one: loaded when first asked for."""


def register_replayer(engine: str, replayer: Replayer) -> Replayer:
    """Name what replays the findings of an engine.

    Raises:
        ValueError: the engine has one already.
    """
    if _replayers.get(engine, replayer) is not replayer:
        raise ValueError(f"engine {engine!r} has a replayer already")
    _replayers[engine] = replayer
    return replayer


def replay(finding: Finding) -> Result:
    """Run a finding's case again, alone.

    Returns:
        FAIL (with the finding) if it still fails, PASS if not, UNKNOWN if the case does not fit the present code,
        NOT_RUN if its device is absent.

    Raises:
        ValueError: no engine of that name, or a case that is none of its.
    """
    if finding.engine in _MODULES:
        importlib.import_module(_MODULES[finding.engine])
    replayer = _replayers.get(finding.engine)
    if replayer is None:
        known = ", ".join([*_replayers, *(engine for engine in _MODULES if engine not in _replayers)])
        raise ValueError(f"finding {finding.id}: engine {finding.engine!r}; allowed: {known}")
    begun = time.monotonic()
    verdict = replayer(finding)
    failed = verdict.status is Status.FAIL
    return Result(
        finding.subject,
        finding.property_name,
        "replay",
        verdict,
        time.monotonic() - begun,
        cases=0 if verdict.status in {Status.NOT_RUN, Status.UNKNOWN} else 1,
        device=finding.device,
        target=finding.target,
        findings=(replace(finding, message=verdict.reason),) if failed else (),
    )


def _case_part(finding: Finding, key: str) -> Any:
    if key not in finding.case:
        known = ", ".join(finding.case)
        raise ValueError(f"finding {finding.id}: its case lacks {key!r}; it has: {known}")
    return finding.case[key]


def replay_kernel(finding: Finding) -> Verdict:
    """Replay a launch on the device that it failed on."""
    name = _case_part(finding, "kernel")
    kernels = all_kernels()
    if name not in kernels:
        return Verdict(Status.UNKNOWN, f"there is no kernel {name!r} any more; kernels: {', '.join(kernels)}")
    device = find_device(finding.device)
    found = device.probe()
    if not found.available:
        return Verdict(Status.NOT_RUN, f"device {device.name} is not here: {found.detail}")
    case = case_from_json(_case_part(finding, "launch"))
    prop = all_kernel_properties().get(name)
    try:
        differential.check_case(kernels[name], device, case, prop.explain if prop else None)
    except differential.CaseFailed as failure:
        return Verdict(Status.FAIL, f"{failure.kind}: {failure.message}")
    except DeviceLostError as error:
        return Verdict(Status.FAIL, f"device: {error}")
    except ValueError as error:
        # The contract has changed since: neither a failure nor a success of today's kernel.
        return Verdict(Status.UNKNOWN, f"the case does not fit the present contract: {error}")
    return Verdict(Status.PASS, bounds=("this case",))


def replay_layout(finding: Finding) -> Verdict:
    """Replay a statement on one concrete system and its chosen values."""
    statements = all_statements()
    if finding.property_name not in statements:
        return Verdict(Status.UNKNOWN, f"there is no statement {finding.property_name!r} any more")
    statement = statements[finding.property_name]
    try:
        system = system_kind(statement.system).from_json(_case_part(finding, "system"))
        chooser = ReplayChooser(given=_case_part(finding, "values"))
        check_statement_case(statement.body, system, chooser, int(finding.case.get("slip", 0)))
    except ClaimFailed as failure:
        return Verdict(Status.FAIL, str(failure))
    except Vacuous as why:
        return Verdict(Status.UNKNOWN, f"the case is outside the present statement: {why}")
    except (ValueError, TypeError, KeyError) as error:
        return Verdict(Status.UNKNOWN, f"the case does not fit the present statement: {error}")
    return Verdict(Status.PASS, bounds=("this case",))


register_replayer("kernel", replay_kernel)
register_replayer("layout", replay_layout)
register_replayer("proof", replay_finding)
