"""A case runs while the next is drawn: what is found, counted and shrunk is what waiting for each would find."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from kvproof.harness.devices.base import Availability, DeviceError, DeviceLostError
from kvproof.harness.run.ahead import AT_ONCE, NOT_AGAIN, TOO_LATE
from kvproof.harness.run.trial import LOST, Hunt, Trial, find_causes
from kvproof.harness.targets.device import NoWorkerError
from kvproof.kernels.registry import Kernel, all_kernels
from kvproof.models.contract import TensorValue, bind, expected_buffers
from kvproof.properties.strategies.cases import all_kernel_properties

KERNEL = all_kernels()["row_scatter"]
PROPERTY = all_kernel_properties()["row_scatter"]

Values = Mapping[str, Any]
Buffers = dict[str, TensorValue]


@dataclass
class Distant:
    """A device that keeps its contracts, as an answer that is fetched later; ``fault`` then does what it likes.

    Attributes:
        fault: called with (arguments, buffers after the launch).
        sent: arguments of every launch.
        on_its_way: launches that were not fetched; never more than two.
    """

    fault: Callable[[Values, Buffers], None] = lambda _values, _after: None
    sent: list[Values] = field(default_factory=list[Values])
    on_its_way: int = 0
    name: str = "distant"

    def probe(self) -> Availability:
        return Availability(True, "plain numpy")

    def run(self, kernel: Kernel, values: Values) -> Mapping[str, TensorValue]:
        return self.submit(kernel, values)()

    def submit(self, kernel: Kernel, values: Values) -> Callable[[], Mapping[str, TensorValue]]:
        assert self.on_its_way < AT_ONCE
        self.on_its_way += 1
        self.sent.append(values)

        def outcome() -> Mapping[str, TensorValue]:
            self.on_its_way -= 1
            after = {k: v.copy() for k, v in values.items() if isinstance(v, TensorValue)}
            after |= expected_buffers(kernel.contract, values, bind(kernel.contract, values))
            self.fault(values, after)
            return after

        return outcome


def hunt(
    device: Distant, *, ahead: bool, cases: int = 40, causes: int = 3, seconds: float = 600
) -> tuple[Hunt, Trial]:
    trial = Trial(KERNEL, device, PROPERTY, None, None, tolerated=True, ahead=ahead)
    found = find_causes(
        trial, budget_seconds=600, seed=1, case_target=cases, most_causes=causes, shrink_seconds=seconds
    )
    assert trial.lost or device.on_its_way == 0
    return found, trial


def several_tokens(values: Values, _after: Buffers) -> None:
    """Two causes, of cases that are not the same."""
    tokens = values["dest_rows"].shape[0]
    if tokens >= 4:
        raise DeviceError("a launch of many rows fails")
    if tokens >= 2 and (values["dest_rows"].array == 1).any():
        raise DeviceError("a launch that writes a row fails")


def test_the_same_cases_run_and_have_the_same_events() -> None:
    one, other = Distant(), Distant()
    (waited, first), (drawn_ahead, second) = hunt(one, ahead=False), hunt(other, ahead=True)
    assert waited.failures == drawn_ahead.failures == ()
    assert first.ran == second.ran == len(one.sent) == len(other.sent) == 40
    assert waited.events == drawn_ahead.events
    for left, right in zip(one.sent, other.sent, strict=True):
        assert all(np.array_equal(left[n].storage, right[n].storage) for n in ("dest_rows", "batch_id_per_token"))


def test_every_cause_is_found_and_shrunk_to_the_same_case() -> None:
    (waited, one), (drawn_ahead, other) = (
        hunt(Distant(several_tokens), ahead=a, cases=120) for a in (False, True)
    )
    assert one.ahead is None
    assert other.ahead is not None
    causes = {failure.cause: failure for failure in waited.failures}
    assert len(causes) == 2
    assert {failure.cause for failure in drawn_ahead.failures} == set(causes)
    for failure in drawn_ahead.failures:
        assert failure.note == ""
        assert failure.case["values"] == causes[failure.cause].case["values"]
        assert other.known[failure.cause] >= 1
    assert not other.ahead.wanted


def test_two_neighbours_that_fail_differently_are_both_kept() -> None:
    def alternating(values: Values, _after: Buffers) -> None:
        # The outcome belongs to the case, whenever it is run: by a number that the case has.
        raise DeviceError("even" if values["dest_rows"].shape[0] % 2 == 0 else "odd")

    found, trial = hunt(Distant(alternating), ahead=True, cases=20, causes=1)
    words = sorted(failure.failed.message for failure in found.failures)
    assert words in (["even"], ["odd"], ["even", "odd"])
    assert trial.ahead is not None
    assert sum(trial.known.values()) >= len(found.failures)
    found, _ = hunt(Distant(alternating), ahead=True, cases=20, causes=2)
    assert sorted(failure.failed.message for failure in found.failures) == ["even", "odd"]


def test_a_failure_that_does_not_come_again_is_kept_as_it_was() -> None:
    launches = {"count": 0}

    def once(_values: Values, _after: Buffers) -> None:
        launches["count"] += 1
        if launches["count"] == 17:
            raise DeviceError("only this time")

    device = Distant(once)
    found, trial = hunt(device, ahead=True, cases=30)
    (failure,) = found.failures
    assert failure.message == f"device: only this time ({NOT_AGAIN})"
    assert failure.case["values"]["kv"]["shape"] == list(device.sent[16]["kv"].shape)
    assert trial.ran == 30


def test_a_failure_of_the_last_case_within_the_budget_is_not_lost() -> None:
    def last(values: Values, _after: Buffers) -> None:
        if values is device.sent[-1] and len(device.sent) >= 10:
            raise DeviceError("the last")

    device = Distant(last)
    found, trial = hunt(device, ahead=True, cases=10, causes=1)
    assert [failure.failed.message for failure in found.failures] == ["the last"]
    assert trial.ran == 10


def test_redrawing_a_failed_case_takes_no_longer_than_shrinking() -> None:
    def one_in_many(values: Values, _after: Buffers) -> None:
        if values["dest_rows"].shape[0] >= 3:
            raise DeviceError("a launch of many rows fails")

    found, trial = hunt(Distant(one_in_many), ahead=True, seconds=0.0)
    (failure,) = found.failures
    assert failure.note == TOO_LATE
    assert failure.case["values"]["dest_rows"]["shape"][0] >= 3
    assert trial.ahead is not None
    assert not trial.ahead.wanted


@pytest.mark.parametrize("at", [1, 2, 7])
def test_a_worker_that_does_not_start_any_more_is_no_fault_of_a_case(at: int) -> None:
    device = Distant()

    def gone(_values: Values, _after: Buffers) -> None:
        if len(device.sent) >= at:
            raise NoWorkerError("it does not start again, twice")

    device.fault = gone
    found, trial = hunt(device, ahead=True)
    assert found.failures == ()
    assert trial.lost == "it does not start again, twice"
    assert trial.ran < at


@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_cause_is_kept_when_its_worker_does_not_start_any_more(after: int) -> None:
    failed: list[int] = []

    def fails_and_is_gone(values: Values, _after: Buffers) -> None:
        tokens = values["dest_rows"].shape[0]
        if len(failed) > after:
            raise NoWorkerError("it does not start again, twice")
        if tokens >= 3:
            failed.append(tokens)
            raise DeviceError("a launch of many rows fails")

    found, trial = hunt(Distant(fails_and_is_gone), ahead=True)
    (failure,) = found.failures
    assert failure.note == LOST
    assert failure.case["values"]["dest_rows"]["shape"][0] in failed
    assert 1 <= trial.known[failure.cause] <= len(failed)


@dataclass
class Breakable(Distant):
    """A device of this process: what breaks it is the launch at hand, and nothing runs after it."""

    submit: Any = None
    broken: str = ""

    def run(self, kernel: Kernel, values: Values) -> Mapping[str, TensorValue]:
        if self.broken or values["dest_rows"].shape[0] >= 3:
            self.broken = self.broken or "an illegal access"
            raise DeviceLostError(self.broken)
        return Distant.submit(self, kernel, values)()


def test_a_launch_that_breaks_the_device_of_this_process_is_one_failure() -> None:
    device = Breakable()
    trial = Trial(KERNEL, device, PROPERTY, None, None, tolerated=True, ahead=False)
    found = find_causes(trial, budget_seconds=600, seed=1, case_target=40, most_causes=3, shrink_seconds=600)
    (failure,) = found.failures
    assert failure.failed.message == trial.lost == "an illegal access"
    assert failure.note == LOST
    assert failure.case["values"]["dest_rows"]["shape"][0] >= 3


SLOW = pytest.mark.slow


@pytest.mark.parametrize("cases", [1, 2, *(pytest.param(n, marks=SLOW) for n in (99, 100, 101, 250))])
def test_counts_at_the_edges_of_a_chunk(cases: int) -> None:
    device = Distant()
    found, trial = hunt(device, ahead=True, cases=cases)
    assert trial.ran == cases
    assert len(device.sent) == cases
    assert found.failures == ()
