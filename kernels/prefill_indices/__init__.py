"""Prefill index build: in-chunk rows, the window before the chunk, and the HCA groups of each token."""

from kvproof.kernels.prefill_indices.contract import CONTRACT
from kvproof.kernels.registry import Kernel, register

KERNEL = register(
    Kernel(
        name="prefill_indices",
        contract=CONTRACT,
        launcher="kvproof.kernels.prefill_indices.kernel:write_v4_paged_prefill_indices",
        triton=("kvproof.kernels.prefill_indices.kernel:prefill_indices_kernel",),
        cases="kvproof.kernels.prefill_indices.cases:cases",
        summary="in-chunk rows, earlier window rows and HCA groups of each prefill token",
    )
)
