"""What a kernel promises, stated once. Generators, provers, the comparison and the documentation read it.

Conditions and cells are functions of the arguments and of index values. On a concrete case they run on
whole index arrays; in a proof they run on symbolic integers, with each index tensor an uninterpreted
function. They follow the rules of :mod:`kvproof.models.index`: no ``if``, ``and`` or chained comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from kvproof.models.contract.tensors import STORAGE_DTYPES, TensorValue
from kvproof.models.errors import LayoutError
from kvproof.models.index import Condition, IndexValue


class Arguments(Protocol):
    """The arguments of one launch, as the functions of a contract see them.

    Attribute access by argument name: a scalar, or something indexable by index values
    (``a.positions[t]``). Dimension names of tensor shapes are attributes as well (``a.T``).
    """

    def __getattr__(self, name: str) -> Any: ...


@dataclass(frozen=True)
class Tensor:
    """A tensor argument.

    Attributes:
        name: argument name.
        dtype: logical element type (one of ``STORAGE_DTYPES``), or several that are accepted.
        shape: extent of each dimension: a number, or a dimension name bound by the first tensor that has it.
        meaning: what it holds, in one line.
        role: "in", "out" or "inout"; only the latter two may be modified.
        strides: "contiguous"; "rows": the first dimension's stride is free; "any".
        longer: the first dimension may be longer than its name says (a capture-time buffer); the rest of it is
            stale and must not matter.
        optional: None may be passed for it.
    """

    name: str
    dtype: str | tuple[str, ...]
    shape: tuple[str | int, ...]
    meaning: str
    role: Literal["in", "out", "inout"] = "in"
    strides: Literal["contiguous", "rows", "any"] = "contiguous"
    longer: bool = False
    optional: bool = False

    def __post_init__(self) -> None:
        for dtype in self.dtypes:
            if dtype not in STORAGE_DTYPES:
                raise LayoutError(f"tensor {self.name!r}: dtype {dtype!r}; allowed: {', '.join(STORAGE_DTYPES)}")

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Accepted element types."""
        return (self.dtype,) if isinstance(self.dtype, str) else self.dtype


@dataclass(frozen=True)
class Scalar:
    """A scalar or structured argument (``kind`` "int", "float", "bool", or the name of a models/ type)."""

    name: str
    meaning: str
    kind: str = "int"


Bound: TypeAlias = Callable[..., IndexValue]
"""Function of (arguments, *outer indices)."""


def _zero(_a: Arguments, *_outer: IndexValue) -> IndexValue:
    return 0


@dataclass(frozen=True)
class Index:
    """A bound variable: ``low(a, *outer) <= i < stop(a, *outer)``, where outer are the indices before it."""

    name: str
    stop: Bound
    low: Bound = _zero


@dataclass(frozen=True)
class Clause:
    """A condition on the arguments, for all values of its indices.

    Attributes:
        name: short identifier, unique in its contract.
        words: the condition in words.
        holds: ``holds(a, *indices)``.
        over: its indices.
    """

    name: str
    words: str
    holds: Callable[..., Condition]
    over: tuple[Index, ...] = ()


@dataclass(frozen=True)
class Tolerance:
    """Input that a caller should not pass, and that must do no harm all the same.

    Attributes:
        name: short identifier; a generator draws it, and counts it as an event of this name.
        words: what may be wrong, and what must then happen.
    """

    name: str
    words: str


@dataclass(frozen=True)
class Access:
    """A set of cells that a kernel reads or writes.

    Attributes:
        buffer: the tensor.
        mode: "must" write, "may" write, or "read"; "failing": a write by which a launch says that it gave up, and
            which no launch that succeeds makes.
        over: indices over the set.
        when: ``when(a, *indices)``: whether this element is live.
        cell: ``cell(a, *indices)``: its leading coordinates in the buffer (a tuple of index values); the
            trailing dimensions are meant whole.
        value: for a write, ``value(a, *indices)``: what is written, for arrays of indices, as an array whose
            first dimension runs over them. Not evaluated in proofs.
        words: the set in words.
        bound: instead of ``value``, for floats that need not be exact to the last bit: ``bound(a, *indices)``
            gives an :class:`~kvproof.models.contract.Approximate`.
    """

    buffer: str
    mode: Literal["must", "may", "failing", "read"]
    over: tuple[Index, ...]
    when: Callable[..., Condition]
    cell: Callable[..., tuple[IndexValue, ...]]
    words: str
    value: Callable[..., npt.NDArray[Any]] | None = None
    bound: Callable[..., Any] | None = None


@dataclass(frozen=True)
class Order:
    """This kernel runs before (or after) another entry point of the same forward."""

    relation: Literal["before", "after"]
    other: str
    why: str


@dataclass(frozen=True)
class Contract:
    """One kernel entry point.

    Attributes:
        name: entry point, as production names it.
        summary: one sentence.
        arguments: in order.
        requires: what the caller guarantees.
        tolerates: what must do no harm although no caller should pass it.
        accesses: cells read and written; every cell of an output that no write names stays as it is.
        ordering: order against other kernels of one forward.
        source: where the facts come from.
    """

    name: str
    summary: str
    arguments: tuple[Tensor | Scalar, ...]
    requires: tuple[Clause, ...]
    tolerates: tuple[Tolerance, ...]
    accesses: tuple[Access, ...]
    ordering: tuple[Order, ...] = ()
    source: str = ""

    def __post_init__(self) -> None:
        names = [argument.name for argument in self.arguments]
        tensors = {t.name: t for t in self.tensors}
        if len(set(names)) != len(names):
            raise LayoutError(f"contract {self.name!r} names an argument twice: {names}")
        for access in self.accesses:
            tensor = tensors.get(access.buffer)
            if tensor is None:
                raise LayoutError(f"contract {self.name!r}: access to {access.buffer!r}, which is no tensor of it")
            if access.mode != "read" and tensor.role == "in":
                raise LayoutError(f"contract {self.name!r}: {access.buffer!r} is written but declared 'in'")

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Tensor arguments, in order."""
        return tuple(a for a in self.arguments if isinstance(a, Tensor))

    @property
    def writes(self) -> tuple[Access, ...]:
        """Accesses that write."""
        return tuple(a for a in self.accesses if a.mode != "read")


def _array(value: TensorValue) -> npt.NDArray[Any]:
    return value.array.astype(np.int64) if value.dtype == "int32" else value.array


class ConcreteArguments:
    """Arguments of one case: arrays for tensors, values for the rest, and the dimension names of the shapes.

    Index tensors come widened to int64: a formula over them must not wrap as a 32-bit kernel would.
    """

    def __init__(self, contract: Contract, values: Mapping[str, Any], dims: Mapping[str, int]) -> None:
        self._values: dict[str, Any] = dict(dims)
        for argument in contract.arguments:
            value = values[argument.name]
            self._values[argument.name] = _array(value) if isinstance(value, TensorValue) else value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"no argument or dimension {name!r}; known: {', '.join(self._values)}") from None


def index_arrays(over: tuple[Index, ...], a: Arguments) -> tuple[npt.NDArray[np.int64], ...]:
    """All values of the indices, as one int64 array an index (of equal length; ragged ranges are expanded)."""
    columns: list[npt.NDArray[np.int64]] = []
    count = 1
    for index in over:
        low = np.broadcast_to(np.asarray(index.low(a, *columns), np.int64), (count,))
        stop = np.broadcast_to(np.asarray(index.stop(a, *columns), np.int64), (count,))
        sizes = np.maximum(stop - low, 0)
        starts = np.cumsum(sizes) - sizes
        count = int(sizes.sum())
        columns = [np.repeat(column, sizes) for column in columns]
        columns.append(np.arange(count, dtype=np.int64) - np.repeat(starts, sizes) + np.repeat(low, sizes))
    return tuple(columns)


def broken_clauses(contract: Contract, a: Arguments) -> Iterator[tuple[Clause, tuple[int, ...]]]:
    """The clauses of *requires* that a case breaks, each with its first offending indices.

    A clause that reads past the end of an argument is broken too, and no indices are named.
    """
    for clause in contract.requires:
        try:
            indices = index_arrays(clause.over, a)
            size = len(indices[0]) if indices else 1
            holds = np.broadcast_to(np.asarray(clause.holds(a, *indices), bool), (size,))
        except IndexError:
            yield clause, ()
            continue
        if not holds.all():
            at = int(np.argmin(holds))
            yield clause, tuple(int(column[at]) for column in indices)


def expected_buffers(contract: Contract, values: Mapping[str, Any], a: Arguments) -> dict[str, TensorValue]:
    """What each output must hold after the launch, from the contract's writes alone.

    Cells that no write names keep what they held before, and so do cells that a write gives a bound for.
    """
    buffers = {
        t.name: cast("TensorValue", values[t.name]).copy()
        for t in contract.tensors
        if t.role != "in" and values[t.name] is not None
    }
    for access in contract.writes:
        if access.mode != "must" or access.buffer not in buffers or access.bound is not None:
            continue
        if access.value is None:
            raise LayoutError(f"contract {contract.name!r}: write to {access.buffer!r} states no value")
        indices = index_arrays(access.over, a)
        live = np.broadcast_to(np.asarray(access.when(a, *indices), bool), indices[0].shape)
        chosen = tuple(column[live] for column in indices)
        if chosen[0].size:
            cell = tuple(np.asarray(part, np.int64) for part in access.cell(a, *chosen))
            buffers[access.buffer].array[cell] = access.value(a, *chosen)
    return buffers
