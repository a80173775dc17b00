"""Unpacking the two planes of an fp8 cache to bf16 rows."""

from kvproof.kernels.fp8_unpack.contract import CONTRACT
from kvproof.kernels.registry import Kernel, register

KERNEL = register(
    Kernel(
        name="fp8_unpack",
        contract=CONTRACT,
        launcher="kvproof.kernels.fp8_unpack.kernel:dequantize_v4_2buff_to_bf16",
        triton=("kvproof.kernels.fp8_unpack.kernel:fp8_unpack_kernel",),
        cases="kvproof.kernels.fp8_unpack.cases:cases",
        summary="packed fp8 rows and RoPE elements to bf16 rows",
    )
)
