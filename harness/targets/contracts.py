"""Every contract that a target can be held to, with the cases that it is fuzzed with."""

from __future__ import annotations

from collections.abc import Mapping

from kvproof.kernels.registry import Kernel, all_kernels
from kvproof.properties.strategies.cases import KernelProperty, all_kernel_properties


def all_contracts() -> Mapping[str, Kernel]:
    """Contracts by name."""
    return all_kernels()


def all_properties() -> Mapping[str, KernelProperty]:
    """The fuzzed property of each contract, by the contract's name."""
    return all_kernel_properties()
