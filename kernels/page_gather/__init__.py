"""Gathering entries from the paged cache: each sequence's records, through its block table."""

from kvproof.kernels.page_gather.contract import CONTRACT
from kvproof.kernels.registry import Kernel, register

KERNEL = register(
    Kernel(
        name="page_gather",
        contract=CONTRACT,
        launcher="kvproof.kernels.page_gather.kernel:page_gather",
        triton=("kvproof.kernels.page_gather.kernel:page_gather_kernel",),
        cases="kvproof.kernels.page_gather.cases:cases",
        summary="data and scale records of a range of each sequence's entries, from their pages",
    )
)
