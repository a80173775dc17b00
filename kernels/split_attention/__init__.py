"""Split attention over the scratch layout: partials behind tagged flags, a combine step, quantised outputs."""

from kvproof.kernels.registry import Kernel, register
from kvproof.kernels.split_attention.contract import CONTRACT

KERNEL = register(
    Kernel(
        name="split_attention",
        contract=CONTRACT,
        launcher="kvproof.kernels.split_attention.launch:split_attention",
        triton=("kvproof.kernels.split_attention.kernel:split_attention_kernel",),
        cases="kvproof.kernels.split_attention.cases:cases",
        summary="attention cut into chunks of keys, through the mega kernels' scratch memory",
    )
)
