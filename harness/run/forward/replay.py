"""Replaying a joint finding."""

from __future__ import annotations

from kvproof.harness.devices.base import DeviceLostError
from kvproof.harness.devices.registry import find_device
from kvproof.harness.run.forward.fuzz import ENGINE, check_case
from kvproof.harness.run.forward.launches import JointFailed, Launches
from kvproof.harness.run.replay import register_replayer
from kvproof.properties.joint.obligations import OBLIGATIONS
from kvproof.reports.finding import Finding
from kvproof.reports.verdict import Status, Verdict


def replay_joint(finding: Finding) -> Verdict:
    """Replay a schedule on the device that it failed on."""
    if finding.property_name not in OBLIGATIONS:
        return Verdict(Status.UNKNOWN, f"there is no obligation {finding.property_name!r} any more")
    device = find_device(finding.device)
    found = device.probe()
    if not found.available:
        return Verdict(Status.NOT_RUN, f"device {device.name} is not here: {found.detail}")
    try:
        check_case(finding.property_name, finding.case, Launches(device))
    except (JointFailed, DeviceLostError) as failure:
        return Verdict(Status.FAIL, str(failure))
    except (ValueError, KeyError) as error:
        return Verdict(Status.UNKNOWN, f"the case does not fit the present obligation: {error!r}")
    return Verdict(Status.PASS, bounds=("this case",))


register_replayer(ENGINE, replay_joint)
