"""HCA head: the complete groups of each decode token, at the head of its slice."""

from kvproof.kernels.hca_head.contract import CONTRACT
from kvproof.kernels.registry import Kernel, register

KERNEL = register(
    Kernel(
        name="hca_head",
        contract=CONTRACT,
        launcher="kvproof.kernels.hca_head.kernel:write_v4_paged_decode_hca_head",
        triton=("kvproof.kernels.hca_head.kernel:hca_head_kernel",),
        cases="kvproof.kernels.hca_head.cases:cases",
        summary="complete HCA groups of each decode token to compressed rows of the pool",
    )
)
