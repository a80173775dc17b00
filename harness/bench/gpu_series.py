"""What is timed on a GPU when two versions take turns: the smallest and the last case of each kernel.

Each call of a maker captures graphs anew in its process, so that a pair of processes is a fair draw.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from kvproof.harness.bench.gpu_samples import PACKED, GraphSampler, flush_buffer
from kvproof.harness.bench.inputs import on_device
from kvproof.harness.bench.offline import chosen
from kvproof.harness.bench.worker import ON_GPU
from kvproof.kernels.registry import all_kernels, resolve


class GpuSampler(GraphSampler):
    """A launch's device time; ``repeats`` is how many launches one graph holds, the same on both sides."""

    @property
    def repeats(self) -> int:
        """Launches of a graph."""
        return PACKED if self.mode == "packed" else 1


def gpu_series(kernels: Collection[str]) -> list[str]:
    """Names of the series of some kernels. Of those alone: making the list of cases of some takes seconds."""
    return [
        f"{kernel.name}/{case}{ON_GPU}"
        for kernel in all_kernels().values()
        if kernel.name in kernels and kernel.triton
        for case in chosen(list(resolve(kernel.cases)()))
    ]


def gpu_sampler(series: str, repeats: int) -> GpuSampler:
    """The sampler of a series, of so many repetitions; 0 to find out.

    Raises:
        KeyError: no such kernel or case.
    """
    name, _, case = series.removesuffix(ON_GPU).partition("/")
    kernel = all_kernels()[name]
    launcher, made = kernel.load(), resolve(kernel.cases)()[case]
    inputs = [on_device(kernel, made, "cuda") for _ in range(2)]
    launches = [partial(launcher, **arguments) for arguments in inputs]
    return GpuSampler(launches, flush_buffer(), packed=repeats > 1 if repeats else None)
