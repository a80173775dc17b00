"""Row scatter in both planes from one launch."""

from kvproof.kernels.registry import Kernel, register
from kvproof.kernels.row_scatter_planes.contract import CONTRACT

KERNEL = register(
    Kernel(
        name="row_scatter_planes",
        contract=CONTRACT,
        launcher="kvproof.kernels.row_scatter_planes.kernel:scatter_planes",
        triton=("kvproof.kernels.row_scatter_planes.kernel:row_scatter_planes_kernel",),
        cases="kvproof.kernels.row_scatter_planes.cases:cases",
        summary="each token's row to a chosen row, both planes from one launch",
    )
)
