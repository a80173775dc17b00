"""CSA top-k translate: the indexer's entries to pool rows, at the head of each token's slice."""

from kvproof.kernels.csa_translate.contract import CONTRACT
from kvproof.kernels.registry import Kernel, register

KERNEL = register(
    Kernel(
        name="csa_translate",
        contract=CONTRACT,
        launcher="kvproof.kernels.csa_translate.kernel:csa_translate_pack",
        triton=("kvproof.kernels.csa_translate.kernel:csa_translate_kernel",),
        cases="kvproof.kernels.csa_translate.cases:cases",
        summary="top-k entries of a sequence to compressed rows of the pool",
    )
)
