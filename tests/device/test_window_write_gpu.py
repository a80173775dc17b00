"""The window write on a GPU at production size: against the contract, captured in a graph, never waiting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from kvproof.harness.check.differential import check_case
from kvproof.harness.devices.base import Device
from kvproof.harness.devices.registry import GPUS, find_device
from kvproof.harness.devices.torch_values import TorchArguments
from kvproof.kernels.registry import all_kernels, resolve
from kvproof.models.contract import TensorValue, bind, expected_buffers
from kvproof.properties.strategies.cases import Case, poison

pytestmark = pytest.mark.gpu
KERNEL = all_kernels()["window_write"]


@pytest.fixture
def gpu() -> Device:
    """The GPU of this machine."""
    for name in GPUS:
        if find_device(name).probe().available:
            return find_device(name)
    pytest.skip("no GPU here")


@pytest.mark.parametrize("name", ["decode-b1-q1", "decode-b64-q4", "decode-b512-q8", "prefill-b16-t512"])
def test_production_size(gpu: Device, name: str) -> None:
    values = dict(resolve(KERNEL.cases)()[name].values)
    pool: TensorValue = values["pool"]
    values["pool"] = TensorValue(pool.dtype, poison(1, "bf16", pool.storage.size), pool.shape, pool.strides)
    check_case(KERNEL, gpu, Case(values))


def test_a_row_past_two_to_the_31_elements(gpu: Device) -> None:
    """One request in a slot whose elements lie past 2**31 of a plane of bytes."""
    columns, slot_rows = 512, 1 << 20
    slots = 5  # 5 * 2**20 rows of 512 elements: slot 4 starts at element 2**31
    window = type(resolve(KERNEL.cases)()["decode-b1-q1"].values["window"])(0, slot_rows, 4, 4, 4)
    pool = torch.zeros(slots * slot_rows, columns, dtype=torch.uint8, device="cuda")
    kv = torch.arange(1, columns + 1, dtype=torch.int64, device="cuda").remainder(251).to(torch.uint8)[None]
    KERNEL.load()(
        kv=kv,
        positions=torch.tensor([2], dtype=torch.int32, device="cuda"),
        cu_seqlens_q=torch.tensor([0, 1], dtype=torch.int32, device="cuda"),
        state_slot_per_seq=torch.tensor([slots - 1], dtype=torch.int32, device="cuda"),
        pool=pool,
        window=window,
        write_per_batch=1,
    )
    row = (slots - 1) * slot_rows + 2
    assert row * columns > 2**31
    assert torch.equal(pool[row], kv[0])
    pool[row] = 0
    assert not bool(pool.any())


def test_a_captured_graph_replays_with_a_smaller_batch(gpu: Device) -> None:
    """Captured with four sequences; replayed with one, the others padded with stale slots."""
    values = dict(resolve(KERNEL.cases)()["decode-b8-q4"].values)
    launched = TorchArguments(values, "cuda")
    arguments: dict[str, Any] = launched.arguments
    launch = KERNEL.load()
    launch(**arguments)  # compiles
    torch.cuda.synchronize()
    arguments["pool"].zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch(**arguments)
    arguments["cu_seqlens_q"].copy_(torch.tensor([0, 3] + [3] * 7, dtype=torch.int32))
    arguments["positions"][:3] = torch.tensor([70, 71, 72], dtype=torch.int32)
    graph.replay()
    torch.cuda.synchronize()

    smaller = launched.results()
    pool = smaller["pool"]
    blank = TensorValue(pool.dtype, np.zeros_like(pool.storage), pool.shape, pool.strides)
    replayed = {**values, **smaller, "pool": blank}
    expected = expected_buffers(KERNEL.contract, replayed, bind(KERNEL.contract, replayed))["pool"]
    assert pool.storage.tobytes() == expected.storage.tobytes()
    assert int((pool.array != 0).any(axis=1).sum()) == 3
