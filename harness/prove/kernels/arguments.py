"""The arguments of a contract in a proof: extents and scalars as variables, index tensors as functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kvproof.harness.prove.kernels.intervals import Interval
from kvproof.harness.solve.term import Term, apply
from kvproof.harness.symbolic.execution import Execution, UnsupportedError
from kvproof.harness.symbolic.values import index_term, simplest
from kvproof.models.contract import STORAGE_DTYPES

DTYPE_RANGES: Mapping[str, Interval] = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint8": (0, 255),
}
"""Range of the elements of integer tensors; of others a proof knows nothing."""

ITEM_BYTES: Mapping[str, int] = {"int32": 4, "int64": 8, "uint8": 1, "fp32": 4, "fp16": 2, "bf16": 2, "fp8": 1}


class SymbolicTensor:
    """A tensor argument: an uninterpreted function of its coordinates.

    Args:
        name: the contract's name of it, and of the function.
        dtype: element type.
        shape: extents.
    """

    def __init__(self, name: str, dtype: str, shape: tuple[Term, ...]) -> None:
        self.name = name
        self.kind = dtype
        self.dtype = np.dtype(STORAGE_DTYPES[dtype])
        self._shape = shape

    @property
    def shape(self) -> tuple[Any, ...]:
        """Extents as index values."""
        return tuple(simplest(extent) for extent in self._shape)

    def __getitem__(self, index: Any) -> Any:
        """The element at some coordinates.

        Raises:
            UnsupportedError: not one coordinate a dimension, or elements that are no integers.
        """
        coordinates = index if isinstance(index, tuple) else (index,)
        if len(coordinates) != len(self._shape) or self.kind not in DTYPE_RANGES:
            raise UnsupportedError(
                f"{self.name}[{len(coordinates)} of {len(self._shape)} coordinates]: {self.kind}"
            )
        return simplest(apply(self.name, [index_term(c) for c in coordinates]))

    def __len__(self) -> int:
        raise UnsupportedError(f"len() of {self.name}, whose extents are variables; use a dimension's name")


class SymbolicArguments:
    """What the functions of a contract see in a proof.

    Args:
        values: dimension names, scalars and tensors by name.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"no argument or dimension {name!r}; known: {', '.join(self._values)}") from None


class Formula(Execution):
    """A run of a contract's formula, which must be one: it may not branch on a symbolic value.

    What models/ requires of a formula's arguments is not required here: outside its domain a formula is
    only a term of which nothing is claimed.
    """

    def __init__(self) -> None:
        super().__init__((), lambda _premises: True)

    def require(self, condition: Term, message: str) -> None:
        """Note nothing."""

    def decide(self, condition: Term) -> bool:
        """Refuse to branch.

        Raises:
            UnsupportedError: unless the condition is a constant.
        """
        if condition.is_const:
            return bool(condition.payload)
        raise UnsupportedError("the contract branches on a symbolic value; it must use select()")
