"""The vocabulary in which contracts and cases are written."""

from kvproof.models.contract.binding import bind
from kvproof.models.contract.bounds import Approximate, settle, within_bound
from kvproof.models.contract.contract import (
    Access,
    Arguments,
    Clause,
    ConcreteArguments,
    Contract,
    Index,
    Order,
    Scalar,
    Tensor,
    Tolerance,
    broken_clauses,
    expected_buffers,
    index_arrays,
)
from kvproof.models.contract.tensors import STORAGE_DTYPES, TensorValue, contiguous

__all__ = [
    "STORAGE_DTYPES",
    "Access",
    "Approximate",
    "Arguments",
    "Clause",
    "ConcreteArguments",
    "Contract",
    "Index",
    "Order",
    "Scalar",
    "Tensor",
    "TensorValue",
    "Tolerance",
    "bind",
    "broken_clauses",
    "contiguous",
    "expected_buffers",
    "index_arrays",
    "settle",
    "within_bound",
]
