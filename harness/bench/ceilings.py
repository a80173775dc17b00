"""What a GPU can do at best, measured: copies, empty launches, loads one after the other, matrix products."""

# Device code is not quite Python: tl.static_range is iterable.
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch
import triton
import triton.language as tl

from kvproof.harness.bench.timing import GraphTimer
from kvproof.kernels.launch import launch

COPY_BYTES = (2**28, 2**30, 2**32)
"""Sizes copied, all far beyond any cache."""
COPY_TILES = tuple((block, warps) for block in (1024, 2048, 4096, 8192) for warps in (4, 8))
"""Programs of the copy kernel: 64-bit words, warps."""
LONGEST_CHAIN = 4


@dataclass(frozen=True)
class Machine:
    """What a launch is measured against.

    Attributes:
        name: GPU.
        copies: bytes read and written a second by each way of copying.
        chain: microseconds of a launch of one program that makes 0, 1, 2 ... loads, each at an address that the
            one before gave, and a store; with 0 loads the launch is empty.
        matrix: bf16 multiplications and additions a second of a large matrix product.
    """

    name: str
    copies: Mapping[str, float]
    chain: tuple[float, ...]
    matrix: float

    @property
    def copy(self) -> float:
        """The copy bandwidth: that of the best way."""
        return max(self.copies.values())

    @property
    def empty(self) -> float:
        """Microseconds of an empty launch."""
        return self.chain[0]

    def bound(self, bytes_moved: int, operations: int = 0) -> float:
        """Seconds that a launch takes at least: its bytes copied, or its operations done."""
        return max(bytes_moved / self.copy, operations / self.matrix)


def measure_machine(timer: GraphTimer) -> Machine:
    """The ceilings of the current GPU."""
    chain = tuple(chain_time(timer, loads) for loads in range(LONGEST_CHAIN + 1))
    return Machine(torch.cuda.get_device_name(), copy_bandwidths(timer), chain, matrix_rate(timer))


@triton.jit
def _copy_kernel(source_ptr, target_ptr, BLOCK: tl.constexpr):
    """Grid (words / BLOCK,): whole tiles only."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target_ptr + at, tl.load(source_ptr + at))


def copy_bandwidths(timer: GraphTimer) -> dict[str, float]:
    """Bytes read and written a second between two buffers of the device, by way: torch's copy and a kernel."""
    found: dict[str, float] = {}
    for size in COPY_BYTES:
        source = torch.randint(-(2**62), 2**62, (size // 8,), dtype=torch.int64, device="cuda")
        target = torch.empty_like(source)
        name = f"{size >> 20} MiB"
        ways: dict[str, Callable[[], object]] = {
            f"copy_ {name}": partial(target.copy_, source),
            f"elementwise {name}": partial(torch.bitwise_not, source, out=target),
        }
        for block, warps in COPY_TILES:
            ways[f"kernel {block}x{warps} {name}"] = partial(
                launch, _copy_kernel, (size // 8 // block,), source, target, BLOCK=block, num_warps=warps
            )
        while ways:
            way, copy = ways.popitem()
            found[way] = 2 * size / (timer.time(copy).median * 1e-6)
            del copy
        # The next two buffers may be the largest of all.
        del source, target
    return found


@triton.jit
def _chain_kernel(next_ptr, out_ptr, LOADS: tl.constexpr):
    at = tl.zeros((), tl.int32)
    for _ in tl.static_range(LOADS):
        at = tl.load(next_ptr + at)
    if LOADS > 0:
        tl.store(out_ptr, at)


def chain_time(timer: GraphTimer, loads: int) -> float:
    """Microseconds of a launch that makes ``loads`` loads one after the other; of an empty one for 0."""
    # A megabyte apart, so that no two loads share a line, and nothing fetches ahead.
    step = 2**18
    following = torch.zeros((LONGEST_CHAIN + 1) * step, dtype=torch.int32, device="cuda")
    following[::step] = torch.arange(1, LONGEST_CHAIN + 2, device="cuda") * step
    out = torch.empty(1, dtype=torch.int32, device="cuda")
    return timer.time(partial(launch, _chain_kernel, (1,), following, out, LOADS=loads)).median


def matrix_rate(timer: GraphTimer) -> float:
    """Multiplications and additions a second of the fastest of some large bf16 matrix products on random data."""
    rates: list[float] = []
    for size in (4096, 8192):
        x, y = (torch.randn((size, size), dtype=torch.bfloat16, device="cuda") for _ in range(2))
        rates.append(2 * size**3 / (timer.time(partial(torch.mm, x, y)).median * 1e-6))
    return max(rates)
