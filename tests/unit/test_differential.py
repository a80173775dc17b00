"""The comparison sees every kind of stray access, and says which row and whose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from kvproof.harness.check.codec import case_from_json, case_json
from kvproof.harness.check.differential import BadCaseError, CaseFailed, check_case
from kvproof.harness.devices.base import AccessError, Availability, DeviceError, DeviceLostError
from kvproof.kernels.registry import Kernel, all_kernels
from kvproof.models.contract import TensorValue, bind, contiguous, expected_buffers
from kvproof.models.row_space import UnifiedPoolGeometry
from kvproof.properties.strategies.cases import Case, all_kernel_properties, poison
from kvproof.properties.strategies.geometry import geometry_json
from kvproof.reports.finding import canonical_json

SPACE = UnifiedPoolGeometry([0, 4], 1, 2, ring_slots=3, block_size=8, plane_rows=40, arena_rows=1)
KERNEL = all_kernels()["window_write"]
EXPLAIN = all_kernel_properties()["window_write"].explain
LAYER = 1
STRIDE = 6  # elements between rows; four of them are columns

Tamper = Callable[[dict[str, TensorValue]], None]


@dataclass
class Obedient:
    """A device that does what contracts say, and then what ``tamper`` does."""

    tamper: Tamper = lambda _buffers: None
    name: str = "obedient"

    def probe(self) -> Availability:
        return Availability(True, "plain numpy")

    def run(self, kernel: Kernel, values: Mapping[str, Any]) -> Mapping[str, TensorValue]:
        after = {k: v.copy() for k, v in values.items() if isinstance(v, TensorValue)}
        after |= expected_buffers(kernel.contract, values, bind(kernel.contract, values))
        self.tamper(after)
        return after


def case() -> Case:
    base = SPACE.layer_base_row(LAYER)
    rows = SPACE.layer_view_rows(LAYER)
    storage = poison(1, "bf16", (base + rows + 4) * STRIDE)
    return Case(
        values={
            "kv": TensorValue("bf16", poison(0, "bf16", 5 * 4), (5, 4), (4, 1)),
            "positions": contiguous("int32", [3, 4, 0, 1, 2, 99]),
            "cu_seqlens_q": contiguous("int32", [0, 2, 5]),
            "state_slot_per_seq": contiguous("int32", [SPACE.physical_slot(1), SPACE.physical_slot(0)]),
            "pool": TensorValue("bf16", storage, (rows, 4), (STRIDE, 1), (2 + base) * STRIDE),
            "window": SPACE.window_params(4),
            "write_per_batch": 2,
        },
        poison={"kv": 0, "pool": 1},
        events=frozenset({"CSA"}),
        layout={"geometry": geometry_json(SPACE), "layer": LAYER},
    )


def failure(tamper: Tamper, which: Case | None = None) -> CaseFailed:
    with pytest.raises(CaseFailed) as caught:
        check_case(KERNEL, Obedient(tamper), which or case(), EXPLAIN)
    return caught.value


def window_row(slot_group: int, position: int) -> int:
    return SPACE.window_params(4).index(SPACE.physical_slot(slot_group), position)


def test_an_obedient_device_passes() -> None:
    check_case(KERNEL, Obedient(), case(), EXPLAIN)


def test_a_row_that_was_not_written() -> None:
    row = window_row(1, 4)
    before = case().values["pool"].array[row].copy()

    def tamper(buffers: dict[str, TensorValue]) -> None:
        buffers["pool"].array[row] = before

    found = failure(tamper)
    plane_row = SPACE.layer_base_row(LAYER) + row
    slot = SPACE.physical_slot(1)
    assert found.kind == "content"
    assert found.message == (
        f"pool row {row} (plane row {plane_row}: ring position 1 of CSA layer 0, slot {slot}): "
        f"expected token 1 (sequence 0, slot {slot}, position 4, ring position 1), got what was there before"
    )


def test_another_tokens_row() -> None:
    def tamper(buffers: dict[str, TensorValue]) -> None:
        buffers["pool"].array[window_row(0, 1)] = buffers["kv"].array[4]

    assert failure(tamper).message.endswith("got row 4 of kv")


def test_one_bit_of_one_element() -> None:
    def tamper(buffers: dict[str, TensorValue]) -> None:
        buffers["pool"].array[window_row(0, 1), 2] ^= 1

    assert "token 3" in failure(tamper).message


@pytest.mark.parametrize(("element", "words"), [(0, "outside the view"), (-STRIDE, "outside the view")])
def test_a_guard_row(element: int, words: str) -> None:
    def tamper(buffers: dict[str, TensorValue]) -> None:
        buffers["pool"].storage[element] ^= 0x8000

    found = failure(tamper)
    assert words in found.message
    assert "expected what was there before" in found.message


def test_between_two_rows() -> None:
    def tamper(buffers: dict[str, TensorValue]) -> None:
        pool = buffers["pool"]
        pool.storage[pool.offset + 4] ^= 1

    assert "untouched elements between rows" in failure(tamper).message


def test_an_input_that_changed() -> None:
    def tamper(buffers: dict[str, TensorValue]) -> None:
        buffers["positions"].array[5] = 98

    assert failure(tamper).message == "positions element 5: expected what was there before, got bits 00000062"


def test_nan_and_minus_zero_are_compared_by_their_bits() -> None:
    values = case().values
    nans = Case({**values, "kv": TensorValue("bf16", np.full(20, 0x7FC1, np.uint16), (5, 4), (4, 1))})
    check_case(KERNEL, Obedient(), nans, EXPLAIN)

    def tamper(buffers: dict[str, TensorValue]) -> None:
        buffers["pool"].array[window_row(0, 1), 0] = 0x7FC2  # another NaN

    assert "7fc2" in failure(tamper, nans).message


def test_many_rows_are_counted() -> None:
    def tamper(buffers: dict[str, TensorValue]) -> None:
        buffers["pool"].storage[:] = 0

    rows = case().values["pool"].storage.size // STRIDE
    assert failure(tamper).message.endswith(f"and {rows - 3} more rows")


def raising(error: Exception) -> Tamper:
    def tamper(_buffers: dict[str, TensorValue]) -> None:
        raise error

    return tamper


def test_device_failures_become_failures_of_the_case() -> None:
    found = failure(raising(DeviceError("no such instruction")))
    assert (found.kind, found.message) == ("device", "no such instruction")
    pool = case().values["pool"]
    row = window_row(0, 2)
    access = AccessError("collision", "pool", pool.offset + row * STRIDE, ((0, 0, 0), (0, 1, 0)), "two writers")
    found = failure(raising(access))
    assert found.kind == "collision"
    assert found.message.startswith(f"pool row {row} (plane row ")
    far = failure(raising(AccessError("out of bounds", "", 0, ((0, 0, 0),), "far away")))
    assert (far.kind, far.message) == ("out of bounds", "far away")


def test_a_lost_device_is_no_failure_of_the_case() -> None:
    with pytest.raises(DeviceLostError):
        check_case(KERNEL, Obedient(raising(DeviceLostError("gone"))), case(), EXPLAIN)


def test_a_case_outside_the_contract_is_refused() -> None:
    values = {**case().values, "write_per_batch": 4}
    with pytest.raises(BadCaseError, match="breaks 'no two on a row'"):
        check_case(KERNEL, Obedient(), Case(values), EXPLAIN)
    check_case(KERNEL, Obedient(), Case({**values, "write_per_batch": 3}), EXPLAIN)


def test_a_case_goes_through_json() -> None:
    import json

    original = case()
    encoded = case_json(original)
    again = case_from_json(json.loads(canonical_json(encoded)))
    assert canonical_json(case_json(again)) == canonical_json(encoded)
    assert again.events == original.events
    for name, value in original.values.items():
        if isinstance(value, TensorValue):
            assert again.values[name].storage.tobytes() == value.storage.tobytes()
            assert again.values[name].shape == value.shape
        else:
            assert again.values[name] == value
    # Poisoned storages are written as seeds: the text stays short.
    assert len(canonical_json(encoded)) < 2000


def test_floats_keep_their_bits_in_json() -> None:
    bits = np.array([0x7F800001, 0x80000000], np.uint32)
    value = TensorValue("fp32", bits.view(np.float32), (2,), (1,))
    again = case_from_json(case_json(Case({"x": value}))).values["x"]
    assert again.storage.view(np.uint32).tolist() == bits.tolist()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "not a kernel case"),
        ({"values": {"x": {"type": "Nothing"}}, "events": [], "layout": {}}, "unknown type 'Nothing'"),
        ({"values": {"x": {"tensor": "bf17"}}, "events": [], "layout": {}}, "bf17"),
    ],
)
def test_what_is_no_case_is_refused(data: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        case_from_json(data)


def test_an_argument_without_json_form_is_refused() -> None:
    with pytest.raises(TypeError, match="'window' of type set"):
        case_json(Case({"window": set[int]()}))
