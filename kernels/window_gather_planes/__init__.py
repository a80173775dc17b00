"""Dequantising window gather: each request's last window rows as bf16, from the two planes of an fp8 cache."""

from kvproof.kernels.registry import Kernel, register
from kvproof.kernels.window_gather_planes.contract import CONTRACT

KERNEL = register(
    Kernel(
        name="window_gather_planes",
        contract=CONTRACT,
        launcher="kvproof.kernels.window_gather_planes.kernel:dspark_paged_window_gather_2buff",
        triton=("kvproof.kernels.window_gather_planes.kernel:window_gather_planes_kernel",),
        cases="kvproof.kernels.window_gather_planes.cases:cases",
        summary="last window rows of each request as dense bf16, unpacked from two planes",
    )
)
