"""Window gather: each request's last window rows as a dense tensor."""

from kvproof.kernels.registry import Kernel, register
from kvproof.kernels.window_gather.contract import CONTRACT

KERNEL = register(
    Kernel(
        name="window_gather",
        contract=CONTRACT,
        launcher="kvproof.kernels.window_gather.kernel:dspark_paged_window_gather",
        triton=("kvproof.kernels.window_gather.kernel:window_gather_kernel",),
        cases="kvproof.kernels.window_gather.cases:cases",
        summary="last window rows of each request as a dense tensor, one plane",
    )
)
