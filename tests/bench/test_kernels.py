"""Kernels timed with pytest-benchmark: each at its production cases on a GPU, at its first on a CPU device.

Run with ``pytest tests/bench --benchmark-only``. Bytes moved are kept beside each time; on a GPU so is the time of
the launch alone, through a graph with a flushed cache.
"""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from kvproof.harness.devices.base import Device
from kvproof.harness.devices.registry import find_device
from kvproof.kernels.benchmark import BenchCase
from kvproof.kernels.registry import Kernel, all_kernels, resolve
from kvproof.models.contract import TensorValue

CPU_BYTES = 2**24
"""Storages of a case at most that a CPU device runs: each launch copies them."""


def case_names() -> list[tuple[str, str]]:
    """(kernel, case) of every case; made without its arrays where there is no GPU to run it."""
    return [(kernel.name, name) for kernel in all_kernels().values() for name in resolve(kernel.cases)()]


def size(case: BenchCase) -> int:
    """Bytes of a case's storages."""
    return sum(v.storage.nbytes for v in case.values.values() if isinstance(v, TensorValue))


@pytest.fixture(params=["interpret", "ir"])
def cpu_device(request: pytest.FixtureRequest) -> Device:
    """A device that needs no GPU."""
    device = find_device(request.param)
    found = device.probe()
    if not found.available:
        pytest.skip(found.detail)
    return device


@pytest.mark.parametrize("name", all_kernels())
def test_smallest_case_on_the_cpu(name: str, cpu_device: Device, benchmark: Any) -> None:
    kernel: Kernel = all_kernels()[name]
    # The first case is a kernel's smallest.
    cases = resolve(kernel.cases)()
    case = cases[next(iter(cases))]
    if size(case) > CPU_BYTES:
        pytest.skip(f"the first case has {size(case)} bytes")
    benchmark.extra_info["bytes_moved"] = case.bytes_moved
    done = benchmark.pedantic(cpu_device.run, args=(kernel, case.values), rounds=3, warmup_rounds=1)
    assert set(done) == {t.name for t in kernel.contract.tensors if case.values[t.name] is not None}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(("name", "case_name"), case_names() if torch.cuda.is_available() else [("", "")])
def test_production_case_on_the_gpu(name: str, case_name: str, benchmark: Any) -> None:
    from kvproof.harness.bench.inputs import on_device
    from kvproof.harness.bench.timing import GraphTimer

    kernel = all_kernels()[name]
    case = resolve(kernel.cases)()[case_name]
    arguments = on_device(kernel, case, "cuda")
    launcher = kernel.load()

    def launch() -> None:
        launcher(**arguments)
        torch.cuda.synchronize()

    benchmark.extra_info["bytes_moved"] = case.bytes_moved
    if kernel.triton:
        benchmark.extra_info["graph_us"] = GraphTimer().time(lambda: launcher(**arguments)).median
    benchmark.pedantic(launch, rounds=20, warmup_rounds=3)
    assert benchmark.stats["rounds"] == 20
