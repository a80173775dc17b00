"""A launch in a proof: a compiled kernel, what each of its arguments is, and what the caller guarantees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kvproof.harness.ir.compile import Signature
from kvproof.harness.prove.kernels.arguments import DTYPE_RANGES, ITEM_BYTES, SymbolicArguments, SymbolicTensor
from kvproof.harness.prove.kernels.intervals import Interval
from kvproof.harness.prove.kernels.views import View
from kvproof.harness.solve.term import Term, integer, le, mul, variable
from kvproof.harness.symbolic.values import SymInt, simplest
from kvproof.models.contract import Contract, Tensor

INT32: Interval = (-(2**31), 2**31 - 1)
EXTENT: Interval = (0, 2**31 - 1)


@dataclass(frozen=True)
class Quantity:
    """Something of a launch that varies: an extent, a stride, a scalar.

    Attributes:
        name: "T", "pool.stride", "write_per_batch".
        term: its variable.
        range: values that it can have.
        dense: of a stride, the value with which rows lie next to each other.
    """

    name: str
    term: Term
    range: Interval
    dense: int | None = None


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel, for all values of the quantities.

    Attributes:
        kernel: the ``@triton.jit`` function.
        signature: what it is specialised for.
        arguments: of each run-time scalar by name, its term.
        views: of each pointer argument by name, what it points to.
        grid: programs along x, y, z.
        loose: quantities that stand for what no formula explains: anything of their type.
    """

    kernel: Any
    signature: Signature
    arguments: Mapping[str, Term]
    views: Mapping[str, View]
    grid: tuple[Term, Term, Term]
    loose: tuple[Quantity, ...] = ()


@dataclass(frozen=True)
class Setting:
    """The launches of one entry point under one choice of everything that does not vary.

    Attributes:
        name: of the choice.
        contract: what the entry point promises.
        values: the contract's arguments and dimension names as index values.
        quantities: what varies.
        launches: in order.
        fixed: what does not vary, by name, for the verdict's bounds.
        assumptions: how the launches were found.
        premises: what holds of the quantities besides the contract's clauses.
    """

    name: str
    contract: Contract
    values: Mapping[str, Any]
    quantities: tuple[Quantity, ...]
    launches: tuple[Launch, ...]
    fixed: Mapping[str, str] = field(default_factory=dict[str, str])
    assumptions: tuple[str, ...] = ()
    premises: tuple[Term, ...] = ()
    names: dict[Any, Any] = field(default_factory=dict[Any, Any], repr=False, compare=False)
    """What the contract's accesses are at some indices, once it was worked out."""

    def view(self, name: str) -> View | None:
        """The contract's tensor of this name as a view; None if there is none here."""
        for tensor in self.contract.tensors:
            value = self.values.get(name)
            if tensor.name == name and isinstance(value, SymbolicTensor):
                return contract_view(tensor, value.kind, self.values, name)
        return None

    @property
    def arguments(self) -> SymbolicArguments:
        """What the contract's functions see."""
        return SymbolicArguments(self.values)


def extent_term(extent: str | int, values: Mapping[str, Any]) -> Term:
    """The term of an extent: a number, or a dimension by name."""
    found = values[extent] if isinstance(extent, str) else extent
    return found.term if isinstance(found, SymInt) else integer(int(found))


def contiguous_strides(shape: tuple[Term, ...]) -> tuple[Term, ...]:
    """Strides of a tensor whose elements lie one after the other."""
    strides: list[Term] = []
    step = integer(1)
    for extent in reversed(shape):
        strides.insert(0, step)
        step = mul(step, extent)
    return tuple(strides)


def contract_view(tensor: Tensor, dtype: str, values: Mapping[str, Any], argument: str) -> View:
    """The view that is the contract's tensor itself; a free first stride is the variable ``<name>.stride``."""
    shape = tuple(extent_term(extent, values) for extent in tensor.shape)
    strides = contiguous_strides(shape)
    if tensor.strides != "contiguous" and len(shape) > 1:
        fixed = values.get(f"{tensor.name}.stride")
        first = integer(fixed) if isinstance(fixed, int) else stride_variable(tensor.name)
        strides = (first, *strides[1:])
    return View(argument, tensor.name, dtype, ITEM_BYTES[dtype], shape, strides)


def rows_apart(tensor: Tensor, dtype: str, values: Mapping[str, Any]) -> tuple[Term, ...]:
    """That the rows of a tensor with a free stride share no element, which one that is written needs."""
    if tensor.role == "in" or tensor.strides == "contiguous" or len(tensor.shape) < 2:
        return ()
    shape = contract_view(tensor, dtype, values, tensor.name).shape
    return (le(contiguous_strides(shape)[0], stride_variable(tensor.name)),)


def stride_variable(tensor: str) -> Term:
    """The variable of a tensor's free first stride."""
    return variable(f"{tensor}.stride")


def symbolic_tensor(tensor: Tensor, dtype: str, values: Mapping[str, Any]) -> SymbolicTensor:
    """The tensor as the contract's functions see it."""
    return SymbolicTensor(tensor.name, dtype, tuple(extent_term(extent, values) for extent in tensor.shape))


def tensor_ranges(setting: Setting) -> dict[str, Interval]:
    """Range of each integer tensor's elements, by name."""
    found: dict[str, Interval] = {}
    for tensor in setting.contract.tensors:
        value = setting.values.get(tensor.name)
        if isinstance(value, SymbolicTensor) and value.kind in DTYPE_RANGES:
            found[tensor.name] = DTYPE_RANGES[value.kind]
    return found


def symbol(name: str) -> Any:
    """A variable as an index value."""
    return simplest(variable(name))
