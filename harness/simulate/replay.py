"""Replaying a finding of a simulation."""

from __future__ import annotations

from kvproof.harness.devices.registry import find_device
from kvproof.harness.run.replay import register_replayer
from kvproof.harness.simulate.findings import ENGINE, stored_schedule
from kvproof.harness.simulate.schedule import failure_of
from kvproof.reports.finding import Finding
from kvproof.reports.verdict import Status, Verdict


def replay_simulation(finding: Finding) -> Verdict:
    """Run a stored schedule again on fresh pools."""
    if finding.device:
        device = find_device(finding.device)
        found = device.probe()
        if not found.available:
            return Verdict(Status.NOT_RUN, f"device {device.name} is not here: {found.detail}")
    try:
        world, schedule = stored_schedule(finding)
    except ValueError as error:
        return Verdict(Status.UNKNOWN, f"the case does not fit the present simulator: {error}")
    failure = failure_of(world, schedule)
    if failure is not None:
        return Verdict(Status.FAIL, str(failure.broken))
    return Verdict(Status.PASS, bounds=("this schedule",))


register_replayer(ENGINE, replay_simulation)
