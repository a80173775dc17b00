"""Appending entries to the paged cache: records of data and scales to their pages."""

from kvproof.kernels.page_append.contract import CONTRACT
from kvproof.kernels.registry import Kernel, register

KERNEL = register(
    Kernel(
        name="page_append",
        contract=CONTRACT,
        launcher="kvproof.kernels.page_append.kernel:page_append",
        triton=("kvproof.kernels.page_append.kernel:page_append_kernel",),
        cases="kvproof.kernels.page_append.cases:cases",
        summary="data and scale records of entries, indexer keys or packed rows to their pages",
    )
)
