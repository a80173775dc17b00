"""Every contract that a target can be held to, with the cases that it is fuzzed with."""

from __future__ import annotations

from collections.abc import Mapping

from kvproof.kernels.registry import Kernel, all_kernels
from kvproof.properties.pages import PAGE_CONTRACTS, PAGE_PROPERTIES
from kvproof.properties.slices import SLICE_CONTRACTS, SLICE_PROPERTIES
from kvproof.properties.strategies.cases import KernelProperty, all_kernel_properties


def all_contracts() -> Mapping[str, Kernel]:
    """Contracts by name: those of this project's kernels, and those that only others have kernels for."""
    foreign = {
        name: Kernel(name, contract, launcher="", triton=(), cases="", summary=contract.summary)
        for name, contract in {**PAGE_CONTRACTS, **SLICE_CONTRACTS}.items()
    }
    return {**all_kernels(), **foreign}


def all_properties() -> Mapping[str, KernelProperty]:
    """The fuzzed property of each contract, by the contract's name."""
    return {**all_kernel_properties(), **PAGE_PROPERTIES, **SLICE_PROPERTIES}
