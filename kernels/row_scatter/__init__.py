"""Row scatter: each token's row to a row that the caller chose."""

from kvproof.kernels.registry import Kernel, register
from kvproof.kernels.row_scatter.contract import CONTRACT

KERNEL = register(
    Kernel(
        name="row_scatter",
        contract=CONTRACT,
        launcher="kvproof.kernels.row_scatter.kernel:swa_scatter_rows",
        triton=("kvproof.kernels.row_scatter.kernel:row_scatter_kernel",),
        cases="kvproof.kernels.row_scatter.cases:cases",
        summary="each token's row to a chosen row, one plane",
    )
)
