"""Fused compression: pooling, norm, rotation and the write to the pool."""

from kvproof.kernels.fused_compress.contract import CONTRACT
from kvproof.kernels.registry import Kernel, register

KERNEL = register(
    Kernel(
        name="fused_compress",
        contract=CONTRACT,
        launcher="kvproof.kernels.fused_compress.kernel:fused_compress_attn",
        triton=("kvproof.kernels.fused_compress.device:fused_compress_kernel",),
        cases="kvproof.kernels.fused_compress.cases:cases",
        summary="complete groups pooled, normalised, rotated and written, bf16 or packed",
    )
)
