"""Which cells the index writers fill, whatever the layout of the pool: contracts that hold in every era of one."""

from kvproof.properties.slices.cases import SLICE_PROPERTIES
from kvproof.properties.slices.contracts import SLICE_CONTRACTS

__all__ = ["SLICE_CONTRACTS", "SLICE_PROPERTIES"]
