"""Compress and write plans: which tokens of a forward complete a group, and which go to the state rings."""

from kvproof.kernels.compress_plans.contract import CONTRACT
from kvproof.kernels.registry import Kernel, register

KERNEL = register(
    Kernel(
        name="compress_plans",
        contract=CONTRACT,
        launcher="kvproof.kernels.compress_plans.kernel:fill_plans",
        triton=(),
        cases="kvproof.kernels.compress_plans.cases:cases",
        summary="tokens that complete a group, and tokens for the state rings (host)",
    )
)
