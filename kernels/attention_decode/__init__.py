"""Sparse paged attention of decode and verify tokens."""

from kvproof.kernels.attention_decode.contract import CONTRACT
from kvproof.kernels.registry import Kernel, register

KERNEL = register(
    Kernel(
        name="attention_decode",
        contract=CONTRACT,
        launcher="kvproof.kernels.attention_decode.kernel:sparse_attn_v4_paged_decode",
        triton=(
            "kvproof.kernels.attention_kernels:attend_kernel",
            "kvproof.kernels.attention_kernels:merge_kernel",
        ),
        cases="kvproof.kernels.attention_decode.cases:cases",
        summary="sparse paged attention over the pool, with a sink logit a head",
    )
)
