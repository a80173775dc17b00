"""Row formulas: window row, compressed row, 64-bit row offset."""

from kvproof.kernels.registry import Kernel, register
from kvproof.kernels.row_index.contract import CONTRACT

KERNEL = register(
    Kernel(
        name="row_index",
        contract=CONTRACT,
        launcher="kvproof.kernels.row_index.kernel:row_index",
        triton=(
            "kvproof.kernels.row_index.kernel:window_row_probe",
            "kvproof.kernels.row_index.kernel:compress_row_probe",
            "kvproof.kernels.row_index.kernel:row_offset_probe",
        ),
        cases="kvproof.kernels.row_index.cases:cases",
        summary="window row, compressed row and 64-bit row offset",
    )
)
