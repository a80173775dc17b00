"""Sparse paged attention of a prefill chunk."""

from kvproof.kernels.attention_prefill.contract import CONTRACT
from kvproof.kernels.registry import Kernel, register

KERNEL = register(
    Kernel(
        name="attention_prefill",
        contract=CONTRACT,
        launcher="kvproof.kernels.attention_prefill.kernel:sparse_attn_v4_paged_prefill",
        triton=(
            "kvproof.kernels.attention_kernels:attend_kernel",
            "kvproof.kernels.attention_kernels:merge_kernel",
        ),
        cases="kvproof.kernels.attention_prefill.cases:cases",
        summary="sparse paged attention over the pool and the chunk's own rows",
    )
)
