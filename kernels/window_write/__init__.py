"""Window write: the last tokens of each sequence to their window rows."""

from kvproof.kernels.registry import Kernel, register
from kvproof.kernels.window_write.contract import CONTRACT

KERNEL = register(
    Kernel(
        name="window_write",
        contract=CONTRACT,
        launcher="kvproof.kernels.window_write.kernel:swa_write",
        triton=("kvproof.kernels.window_write.kernel:window_write_kernel",),
        cases="kvproof.kernels.window_write.cases:cases",
        summary="last tokens of each sequence to their window rows, one plane",
    )
)
