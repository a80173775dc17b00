"""Window write in both planes from one launch."""

from kvproof.kernels.registry import Kernel, register
from kvproof.kernels.window_write_planes.contract import CONTRACT

KERNEL = register(
    Kernel(
        name="window_write_planes",
        contract=CONTRACT,
        launcher="kvproof.kernels.window_write_planes.kernel:swa_write_planes",
        triton=("kvproof.kernels.window_write_planes.kernel:window_write_planes_kernel",),
        cases="kvproof.kernels.window_write_planes.cases:cases",
        summary="last tokens of each sequence to their window rows, both planes from one launch",
    )
)
