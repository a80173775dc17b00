"""Binding a case to a contract: which extent each dimension name stands for, and whether the arguments fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from kvproof.models.contract.contract import ConcreteArguments, Contract, Tensor
from kvproof.models.contract.tensors import TensorValue
from kvproof.models.errors import LayoutError


def bind(contract: Contract, values: Mapping[str, Any]) -> ConcreteArguments:
    """The arguments of one case as a contract's functions see them.

    Args:
        contract: the contract.
        values: its arguments by name; tensors as :class:`TensorValue`, None for an absent optional one.

    Raises:
        LayoutError: an argument is missing or unknown, or a tensor's type, shape or strides do not fit.
    """
    names = [argument.name for argument in contract.arguments]
    for name in names:
        if name not in values:
            raise LayoutError(f"{contract.name}: argument {name!r} is missing")
    for name in values:
        if name not in names:
            raise LayoutError(f"{contract.name}: unknown argument {name!r}; allowed: {', '.join(names)}")
    dims: dict[str, int] = {}
    for tensor in contract.tensors:
        value = values[tensor.name]
        if value is None and tensor.optional:
            continue
        if not isinstance(value, TensorValue):
            raise LayoutError(
                f"{contract.name}: {tensor.name} must be a TensorValue, got {type(cast('object', value)).__name__}"
            )
        _fit(contract, tensor, value, dims)
    return ConcreteArguments(contract, values, dims)


def _fit(contract: Contract, tensor: Tensor, value: TensorValue, dims: dict[str, int]) -> None:
    where = f"{contract.name}: {tensor.name}"
    if value.dtype not in tensor.dtypes:
        raise LayoutError(f"{where} has dtype {value.dtype}; allowed: {', '.join(tensor.dtypes)}")
    if len(value.shape) != len(tensor.shape):
        raise LayoutError(f"{where} has shape {value.shape}; its contract says {tensor.shape}")
    for axis, (extent, got) in enumerate(zip(tensor.shape, value.shape, strict=True)):
        wanted = dims.setdefault(extent, got) if isinstance(extent, str) else extent
        longer = tensor.longer and axis == 0 and got > wanted
        if got != wanted and not longer:
            raise LayoutError(f"{where} has shape {value.shape}; dimension {axis} ({extent}) must be {wanted}")
    if not _strides_fit(tensor, value):
        raise LayoutError(
            f"{where} has strides {value.strides} for shape {value.shape}; allowed: {tensor.strides}"
        )


def _strides_fit(tensor: Tensor, value: TensorValue) -> bool:
    if tensor.strides == "any" or 0 in value.shape:
        return True
    step = 1
    for axis in reversed(range(len(value.shape))):
        if axis == 0 and tensor.strides == "rows":
            # Rows that are written must not overlap.
            return tensor.role == "in" or value.strides[0] >= step or value.shape[0] == 1
        if value.shape[axis] > 1 and value.strides[axis] != step:
            return False
        step *= value.shape[axis]
    return True
