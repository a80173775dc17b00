"""No launcher waits for the GPU: torch's own check raises at the first call that would."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from kvproof.harness.bench.inputs import on_device
from kvproof.harness.devices.registry import GPUS, find_device
from kvproof.kernels.registry import all_kernels, resolve

# torch says once a process that its check is a prototype; it still raises where it sees a wait.
pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:Synchronization debug mode:UserWarning")]
KERNELS = [name for name, kernel in all_kernels().items() if kernel.triton]


@pytest.fixture
def no_waiting() -> Iterator[None]:
    """torch raises where a call would wait for the GPU, from ``torch.cuda.set_sync_debug_mode`` on."""
    if not any(find_device(name).probe().available for name in GPUS):
        pytest.skip("no GPU here")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def refuse_to_wait() -> None:
    """From here on a call that waits raises. torch warns once that it may miss some."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        torch.cuda.set_sync_debug_mode("error")


@pytest.mark.parametrize("name", KERNELS)
def test_a_launcher_does_not_synchronise(no_waiting: None, name: str) -> None:
    kernel = all_kernels()[name]
    cases = resolve(kernel.cases)()
    arguments = on_device(kernel, cases[next(iter(cases))], "cuda")
    launcher = kernel.load()
    launcher(**arguments)  # compiles and loads, which may wait
    torch.cuda.synchronize()
    refuse_to_wait()
    launcher(**arguments)
    torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()


def test_waiting_is_seen(no_waiting: None) -> None:
    value = torch.ones(1, device="cuda")
    refuse_to_wait()
    with pytest.raises(RuntimeError, match="synchroniz"):
        value.item()
