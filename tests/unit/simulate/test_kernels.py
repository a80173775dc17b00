"""Each step with this project's kernels, against the reference memory, without a GPU."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from kvproof.harness.devices.base import Device
from kvproof.harness.run.forward.launches import Launches
from kvproof.harness.simulate.broken import Broken
from kvproof.harness.simulate.kernels import KernelExecutor, as_floats, executor_on, from_floats
from kvproof.harness.simulate.operations import Admit, Decode, Fork, Operation, Preempt, Prefill, Resume, Transfer
from kvproof.harness.simulate.schedule import World, failure_of, run_schedule
from kvproof.models.contract import TensorValue

SCHEDULE: list[Operation] = [
    Admit(1, shared=129, own=6, answer=5),
    Admit(2, shared=128, own=1, answer=3),
    Prefill(((1, 128), (2, 129))),
    Prefill(((1, 135),)),
    Decode(((2, 2, 0), (1, 2, 1)), padding=2),
    Preempt(1),
    Resume(1),
    Fork(2, 3),
    Transfer(2),
    Decode(((1, 2, 2), (3, 0, 0)), padding=1, micro=2),
]


class Wrong:
    """A device whose launches of one kernel are changed afterwards."""

    name = "ir"

    def __init__(self, device: Device, kernel: str, argument: str, change: Any) -> None:
        self.device, self.kernel, self.argument, self.change = device, kernel, argument, change

    def run(self, kernel: Any, values: Any) -> Any:
        done = dict(self.device.run(kernel, values))
        if kernel.name == self.kernel:
            value: TensorValue = done[self.argument]
            changed = value.copy()
            self.change(changed.array)
            done[self.argument] = changed
        return done


def test_a_schedule_of_everything_on_compiled_ir() -> None:
    engine = run_schedule(World(parts={"executor": executor_on("ir")}), SCHEDULE)
    met = {"prefill", "decode", "padded", "microbatches", "rejected drafts", "forked", "transferred"}
    assert met <= set(engine.events)


def _newest(array: Any) -> None:
    array[..., -1] = array[..., 0]


def _first(array: Any) -> None:
    array[0] = 0


def _next(array: Any) -> None:
    array[0] += 1


@pytest.mark.parametrize(
    ("kernel", "argument", "change", "check"),
    [
        ("decode_indices", "csa_indices", _newest, "indices"),
        ("hca_head", "hca_indices", _next, "entries"),
        ("csa_translate", "kv_indices_csa", _next, "entries"),
        ("prefill_indices", "extend_indices", _newest, "window"),
        ("row_scatter", "pool", _first, "ownership"),
        ("slot_copy", "target", _first, "launch"),
        ("window_gather", "out", _first, "draft window"),
    ],
)
def test_what_a_kernel_does_wrong_is_found(kernel: str, argument: str, change: Any, check: str) -> None:
    right = executor_on("ir")

    def make(places: Any, truth: Any, topk: int) -> KernelExecutor:
        executor = right(places, truth, topk)
        wrong = Wrong(executor.launches.device, kernel, argument, change)
        executor.launches = dataclasses.replace(executor.launches, device=wrong)  # type: ignore[arg-type]
        return executor

    found = failure_of(World(parts={"executor": make}), SCHEDULE)
    assert found is not None
    assert found.broken.check == check


def test_a_launch_that_fails_is_a_finding() -> None:
    class Refuses:
        name = "ir"

        def run(self, kernel: Any, values: Any) -> Any:
            from kvproof.harness.devices.base import DeviceError

            del values
            raise DeviceError(f"{kernel.name} does not run")

    def make(places: Any, truth: Any, topk: int) -> KernelExecutor:
        return KernelExecutor(places, truth, topk, Launches(Refuses()))  # type: ignore[arg-type]

    with pytest.raises(Broken, match="launch: prefill_indices: prefill_indices does not run"):
        run_schedule(World(parts={"executor": make}), SCHEDULE)


def test_stamps_travel_through_floats_unchanged() -> None:
    import numpy as np

    keys = np.array([[0, -1, -2], [2**62 + 12345, (1 << 61) + 7, 1 << 34]], np.int64)
    assert (from_floats(as_floats(keys)) == keys).all()
