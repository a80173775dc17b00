"""What a fuzzed property reports: verdicts, findings, and what replays them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from kvproof.harness.devices.base import Availability, Device, DeviceLostError
from kvproof.harness.devices.registry import all_devices, find_device
from kvproof.harness.run import replay as replaying
from kvproof.harness.run.fuzz import ANY_LAYOUT, fuzz_kernel, fuzz_statement
from kvproof.harness.run.replay import register_replayer, replay
from kvproof.kernels.registry import Kernel, all_kernels
from kvproof.models.contract import TensorValue, bind, expected_buffers
from kvproof.models.deepseek_v4 import CONFIGS
from kvproof.models.row_space import RowSpace
from kvproof.properties.statement import Needs, Statement, all_statements
from kvproof.properties.strategies.cases import all_kernel_properties
from kvproof.reports.finding import Finding, canonical_json
from kvproof.reports.verdict import Status

KERNEL = all_kernels()["window_write"]


@dataclass
class Numpy:
    """A device that does what contracts say; with ``broken``, not for a token at an odd position."""

    broken: bool = False
    lost: bool = False
    name: str = "numpy"

    def probe(self) -> Availability:
        return Availability(True, "plain numpy")

    def run(self, kernel: Kernel, values: Mapping[str, Any]) -> Mapping[str, TensorValue]:
        if self.lost:
            raise DeviceLostError("an illegal memory access was encountered")
        after = {k: v.copy() for k, v in values.items() if isinstance(v, TensorValue)}
        if not (self.broken and any(p % 2 for p in values["positions"].array)):
            after |= expected_buffers(kernel.contract, values, bind(kernel.contract, values))
        return after


@dataclass
class Absent:
    """A device that is not here."""

    name: str = "absent"

    def probe(self) -> Availability:
        return Availability(False, "no such thing")

    def run(self, kernel: Kernel, _values: Mapping[str, Any]) -> Mapping[str, TensorValue]:
        raise AssertionError(f"an absent device ran {kernel.name}")


def test_a_right_kernel_passes_with_what_it_saw() -> None:
    result = fuzz_kernel(KERNEL, Numpy(), budget_seconds=60, seed=0, case_target=200)
    assert result.verdict.status is Status.PASS
    assert result.verdict.bounds == ("200 drawn cases",)
    assert (result.subject, result.property_name, result.device) == (ANY_LAYOUT, "window_write", "numpy")
    needs = all_kernel_properties()["window_write"].needs
    assert all(result.events[event] >= count for event, count in needs.events.items())


def test_a_run_that_saw_what_it_needs_may_end() -> None:
    result = fuzz_kernel(KERNEL, Numpy(), budget_seconds=60, seed=0, until_needs=True)
    assert result.verdict.status is Status.PASS
    assert 100 <= result.cases < 400


def test_too_few_cases_are_undecided() -> None:
    result = fuzz_kernel(KERNEL, Numpy(), budget_seconds=60, seed=0, case_target=99)
    assert result.verdict.status is Status.UNKNOWN
    assert "ran 99 of the 100 cases" in result.verdict.reason


def test_an_absent_device_is_not_run() -> None:
    result = fuzz_kernel(KERNEL, Absent(), budget_seconds=60, seed=0)
    assert (result.verdict.status, result.verdict.reason) == (Status.NOT_RUN, "no such thing")
    assert result.cases == 0


def test_a_finding_has_what_is_needed_to_see_it_again() -> None:
    subject = CONFIGS["v4-flash"]
    result = fuzz_kernel(KERNEL, Numpy(broken=True), subject=subject, budget_seconds=60, seed=4)
    assert result.verdict.status is Status.FAIL
    (finding,) = result.findings
    assert (finding.engine, finding.property_name, finding.subject) == ("kernel", "window_write", "v4-flash")
    assert (finding.device, finding.seed) == ("numpy", 4)
    assert finding.environment["device"] == "plain numpy"
    assert finding.environment["hypothesis"]
    assert finding.message == result.verdict.reason
    assert "position 1, ring position 1" in finding.expected
    assert "what was there before" in finding.got
    assert finding.case["launch"]["values"]["positions"]["bits"] == [1]
    assert json.loads(canonical_json(finding.case)) == finding.case


def test_a_lost_device_is_a_finding() -> None:
    result = fuzz_kernel(KERNEL, Numpy(lost=True), budget_seconds=60, seed=0)
    assert result.verdict.status is Status.FAIL
    assert "illegal memory access" in result.findings[0].message
    assert "not shrunk" in result.findings[0].message


def test_a_kernel_without_a_property_is_refused() -> None:
    with pytest.raises(ValueError, match="kernel 'other' has no property to fuzz"):
        fuzz_kernel(replace(KERNEL, name="other"), Numpy(), budget_seconds=1)


# ---- statements ---------------------------------------------------------


def windows_differ(space: RowSpace, choose: Any, slip: int = 0) -> Any:
    """Two ring positions of a slot have two rows; the twin takes positions R apart for different."""
    ratio = choose.pick("class", tuple(space.class_rows))
    slot = choose.integer("slot", space.slot_origin, space.slot_positions - 1)
    a = choose.integer("a", 0, 10**9)
    b = choose.integer("b", 0, 10**9)
    choose.assume((a != b) if slip else (a % space.ring_slots != b % space.ring_slots))
    choose.event("other lap", a // space.ring_slots != b // space.ring_slots)
    params = space.window_params(ratio)
    return params.index(slot, a) != params.index(slot, b)


STATEMENT = Statement(
    "windows differ",
    "Two ring positions have two rows.",
    "row-space",
    windows_differ,
    Needs(40, {"other lap": 10}),
    "",
)


def test_a_statement_that_holds_passes() -> None:
    result = fuzz_statement(STATEMENT, budget_seconds=60, seed=0, until_needs=True)
    assert result.verdict.status is Status.PASS
    assert result.device == ""


def test_the_twin_of_a_statement_fails_at_its_smallest() -> None:
    result = fuzz_statement(STATEMENT, budget_seconds=60, seed=0, slip=1)
    assert result.verdict.status is Status.FAIL
    (finding,) = result.findings
    assert (finding.engine, finding.case["slip"]) == ("layout", 1)
    # One dense layer with a ring of one position: any two positions meet.
    assert finding.case["system"]["ratios"] == [0]
    assert finding.case["system"]["ring_slots"] == 1
    assert finding.case["values"] == {"class": 0, "slot": 0, "a": 0, "b": 1}


def test_a_statement_about_an_unknown_system_is_refused() -> None:
    with pytest.raises(ValueError, match=r"systems of kind .wheel.; known: .*row-space"):
        fuzz_statement(replace(STATEMENT, system="wheel"), budget_seconds=1)


@pytest.mark.parametrize("name", all_statements())
def test_every_statement_can_be_fuzzed(name: str) -> None:
    result = fuzz_statement(all_statements()[name], budget_seconds=60, seed=1, case_target=3)
    assert result.cases == 3
    assert result.findings == ()


# ---- replay -------------------------------------------------------------


@pytest.fixture
def numpy_device(monkeypatch: pytest.MonkeyPatch) -> Numpy:
    device = Numpy(broken=True)

    def find(name: str) -> Device:
        assert name == "numpy"
        return device

    monkeypatch.setattr(replaying, "find_device", find)
    return device


def kernel_finding() -> Finding:
    return fuzz_kernel(KERNEL, Numpy(broken=True), budget_seconds=60, seed=0).findings[0]


def test_a_kernel_finding_replays_until_it_is_mended(numpy_device: Numpy) -> None:
    finding = kernel_finding()
    again = replay(finding)
    assert again.verdict.status is Status.FAIL
    assert again.verdict.reason == finding.message
    assert again.findings[0].id == finding.id
    numpy_device.broken = False
    assert replay(finding).verdict.status is Status.PASS


def test_a_finding_of_an_absent_device_is_not_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaying, "find_device", lambda _name: Absent())
    result = replay(kernel_finding())
    assert (result.verdict.status, result.cases) == (Status.NOT_RUN, 0)


def test_a_case_that_no_longer_fits_is_undecided(numpy_device: Numpy) -> None:
    finding = kernel_finding()
    case = json.loads(canonical_json(finding.case))
    case["launch"]["values"]["write_per_batch"] = 10**6
    result = replay(replace(finding, case=case))
    assert result.verdict.status is Status.UNKNOWN
    assert "no two on a row" in result.verdict.reason
    gone = replay(replace(finding, case={**finding.case, "kernel": "gone"}))
    assert gone.verdict.status is Status.UNKNOWN


def test_a_layout_finding_replays() -> None:
    name = "window/window"
    found = fuzz_statement(all_statements()[name], budget_seconds=60, seed=0, slip=1).findings[0]
    assert replay(found).verdict.status is Status.FAIL
    assert replay(replace(found, case={**found.case, "slip": 0})).verdict.status is Status.PASS
    missing = replay(replace(found, case={**found.case, "values": {}}))
    assert missing.verdict.status is Status.UNKNOWN
    assert replay(replace(found, property_name="gone")).verdict.status is Status.UNKNOWN


def test_unusable_findings_are_refused() -> None:
    finding = kernel_finding()
    with pytest.raises(ValueError, match="engine 'oracle'; allowed: kernel, layout"):
        replay(replace(finding, engine="oracle"))
    with pytest.raises(ValueError, match="its case lacks 'kernel'"):
        replay(replace(finding, case={}))
    with pytest.raises(ValueError, match="'kernel' has a replayer already"):
        register_replayer("kernel", lambda _finding: None)  # type: ignore[arg-type,return-value]


# ---- devices ------------------------------------------------------------


def test_devices_are_found_by_name() -> None:
    names = [device.name for device in all_devices()]
    assert {"cuda", "hip", "interpret"} <= set(names)
    assert len(set(names)) == len(names)
    for name in names:
        assert find_device(name).name == name
        assert find_device(name) is find_device(name)
    with pytest.raises(ValueError, match="device is 'tpu'; allowed: auto, cuda, hip"):
        find_device("tpu")


def test_auto_is_a_gpu_if_there_is_one() -> None:
    gpus = [d.name for d in all_devices() if d.name in {"cuda", "hip"} and d.probe().available]
    assert find_device("auto").name == (gpus[0] if gpus else "interpret")


def test_every_device_says_what_it_is_or_why_it_is_absent() -> None:
    for device in all_devices():
        assert device.probe().detail
