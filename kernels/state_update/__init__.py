"""Compressor state update: this forward's rows to the state rings of their requests."""

from kvproof.kernels.registry import Kernel, register
from kvproof.kernels.state_update.contract import CONTRACT

KERNEL = register(
    Kernel(
        name="state_update",
        contract=CONTRACT,
        launcher="kvproof.kernels.state_update.kernel:update_compressor_states",
        triton=("kvproof.kernels.state_update.kernel:state_update_kernel",),
        cases="kvproof.kernels.state_update.cases:cases",
        summary="this forward's rows to the state rings of their requests",
    )
)
