"""Decode index build: the window rows of each token, and the row that its own KV goes to."""

from kvproof.kernels.decode_indices.contract import CONTRACT
from kvproof.kernels.registry import Kernel, register

KERNEL = register(
    Kernel(
        name="decode_indices",
        contract=CONTRACT,
        launcher="kvproof.kernels.decode_indices.kernel:decode_indices",
        triton=("kvproof.kernels.decode_indices.kernel:decode_indices_kernel",),
        cases="kvproof.kernels.decode_indices.cases:cases",
        summary="window rows of each decode token, and its own row, in every class",
    )
)
