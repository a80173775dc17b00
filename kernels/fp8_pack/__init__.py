"""Packing bf16 rows into the two planes of an fp8 cache."""

from kvproof.kernels.fp8_pack.contract import CONTRACT
from kvproof.kernels.registry import Kernel, register

KERNEL = register(
    Kernel(
        name="fp8_pack",
        contract=CONTRACT,
        launcher="kvproof.kernels.fp8_pack.kernel:quantize_bf16_to_v4_2buff",
        triton=("kvproof.kernels.fp8_pack.kernel:fp8_pack_kernel",),
        cases="kvproof.kernels.fp8_pack.cases:cases",
        summary="bf16 rows to packed fp8 rows and RoPE elements",
    )
)
