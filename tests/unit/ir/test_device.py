"""The executor as a device: this project's kernels against their contracts, and faults as errors."""

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from kvproof.harness.devices.base import AccessError
from kvproof.harness.devices.ir import IrDevice
from kvproof.harness.devices.registry import find_device
from kvproof.harness.run.fuzz import fuzz_kernel
from kvproof.kernels.registry import all_kernels
from kvproof.models.contract import TensorValue, contiguous
from kvproof.models.row_space import WindowParams
from kvproof.properties.strategies.cases import all_kernel_properties


def test_it_is_registered_and_here():
    device = find_device("ir")
    assert isinstance(device, IrDevice)
    assert device.probe().available


@pytest.mark.parametrize("name", sorted(set(all_kernels()) & set(all_kernel_properties())))
def test_every_kernel_agrees_with_its_contract(name):
    result = fuzz_kernel(all_kernels()[name], find_device("ir"), budget_seconds=60, case_target=40, seed=7)
    assert result.findings == ()
    assert result.cases >= 40


def _window_case(**changes):
    case = {
        "kv": contiguous("bf16", np.arange(4 * 8), (4, 8)),
        "positions": contiguous("int32", [5, 6, 7, 9]),
        "cu_seqlens_q": contiguous("int32", [0, 3, 4]),
        "state_slot_per_seq": contiguous("int32", [1, 0]),
        "pool": contiguous("bf16", np.zeros((40, 8), np.uint16)),
        "window": WindowParams(ring_start=2, slot_rows=16, ring_slots=6, ring_stride=4, run_rows=8),
        "write_per_batch": 3,
    }
    return {**case, **changes}


def test_a_view_is_written_and_nothing_beside_it():
    kernel = all_kernels()["window_write"]
    storage = np.zeros(60 * 12, np.uint16)
    pool = TensorValue("bf16", storage, (40, 8), (12, 1), 24)
    after = IrDevice().run(kernel, _window_case(pool=pool))["pool"]
    rows = np.flatnonzero(after.array.any(axis=1))
    # Slot 1: positions 5, 6, 7 are ring positions 5, 0, 1; slot 0: position 9 is ring position 3.
    assert rows.tolist() == [5, 18, 19, 27]
    assert not after.storage.reshape(60, 12)[:, 8:].any()
    assert not storage.any()


def test_two_sequences_in_one_slot_are_a_collision():
    kernel = all_kernels()["window_write"]
    case = _window_case(
        state_slot_per_seq=contiguous("int32", [1, 1]), positions=contiguous("int32", [5, 6, 7, 12])
    )
    with pytest.raises(AccessError, match="collision") as raised:
        IrDevice().run(kernel, case)
    assert (raised.value.kind, raised.value.tensor) == ("collision", "pool_ptr")
    assert raised.value.element // 8 == 18
    assert raised.value.programs == ((0, 0, 0), (1, 0, 0))
    assert "kernels/window_write/kernel.py" in str(raised.value)
