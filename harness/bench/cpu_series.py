"""What is timed on a machine without a GPU: kernels on the IR executor, host parts of launches, layout arithmetic.

These times say how fast this project works, not how fast a GPU would be; for that the offline companions stand in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from kvproof.kernels.registry import Kernel, all_kernels, resolve
from kvproof.models.contract import TensorValue
from kvproof.models.deepseek_v4 import CONFIGS

LARGEST = 2**26
"""Bytes of a case's storages at most that the executor is timed with."""

Call = Callable[[], object]


def cpu_series() -> Mapping[str, Callable[[], Call]]:
    """Of each series by name, what makes the call that is timed. Making it may take a while and may raise."""
    return dict(_series())


def _series() -> Iterator[tuple[str, Callable[[], Call]]]:
    for name in CONFIGS:
        yield f"layout {name}", partial(_layout, name)
    for kernel in all_kernels().values():
        if kernel.triton:
            yield f"{kernel.name} on ir", partial(_on_ir, kernel)
        else:
            yield f"{kernel.name} on the host", partial(_on_host, kernel)


def _layout(name: str) -> Call:
    config = CONFIGS[name]

    def geometry() -> object:
        made = config.geometry(0, 0)
        return [made.window_params(ratio) for ratio in sorted(set(config.trunk_ratios))]

    geometry()
    return geometry


def _smallest(kernel: Kernel) -> dict[str, Any]:
    cases = resolve(kernel.cases)()
    # The first case is a kernel's smallest.
    values = dict(cases[next(iter(cases))].values)
    size = sum(v.storage.nbytes for v in values.values() if isinstance(v, TensorValue))
    if size > LARGEST:
        raise ValueError(f"{kernel.name}: its smallest case has {size:,} bytes; at most {LARGEST:,} are timed")
    return values


def _on_ir(kernel: Kernel) -> Call:
    from kvproof.harness.devices.torch_values import TorchArguments  # noqa: PLC0415  (needs torch)
    from kvproof.harness.ir.launch import Executor  # noqa: PLC0415  (needs triton)
    from kvproof.kernels.launch import launching_on  # noqa: PLC0415

    arguments = TorchArguments(_smallest(kernel), "cpu").arguments
    executor, launcher = Executor(), kernel.load()

    def call() -> None:
        with launching_on(executor):
            launcher(**arguments)
        executor.take()

    call()
    return call


def _on_host(kernel: Kernel) -> Call:
    from kvproof.harness.devices.torch_values import TorchArguments  # noqa: PLC0415  (needs torch)

    arguments = TorchArguments(_smallest(kernel), "cpu").arguments
    launcher = kernel.load()
    launcher(**arguments)
    return partial(launcher, **arguments)
