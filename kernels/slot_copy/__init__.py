"""Slot copy: spans of bytes from one buffer to another, for checkpoints and transfers of slots."""

from kvproof.kernels.registry import Kernel, register
from kvproof.kernels.slot_copy.contract import CONTRACT

KERNEL = register(
    Kernel(
        name="slot_copy",
        contract=CONTRACT,
        launcher="kvproof.kernels.slot_copy.kernel:copy_spans",
        triton=("kvproof.kernels.slot_copy.kernel:slot_copy_kernel",),
        cases="kvproof.kernels.slot_copy.cases:cases",
        summary="spans of bytes from one buffer to another, many at once",
    )
)
