"""A contract in a few lines, for a kernel of one's own: tensors as text, the usual clauses by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

from kvproof.harness.ir.compile import jit_function
from kvproof.harness.prove.kernels import kinds
from kvproof.harness.prove.kernels.kinds import Extent, extent_of
from kvproof.models.contract import STORAGE_DTYPES, Access, Clause, Contract, Index, Scalar, Tensor

_TENSOR = re.compile(r"(inout |out )?(\w+)\[([^\]]*)\]$")

Requirement = Callable[[Mapping[str, Tensor]], Clause]
"""A clause, once the tensors are known."""


def tensor_of(name: str, text: str, kernel: Any = None) -> Tensor:
    """A tensor from ``"bf16[T, 64]"``; one that is written has ``out`` or ``inout`` in front.

    Rows may be apart if the kernel has a parameter ``<name>_stride``.

    Raises:
        ValueError: a text that is not of this form, or an unknown element type.
    """
    found = _TENSOR.match(text)
    if found is None or found[2] not in STORAGE_DTYPES:
        raise ValueError(
            f"tensor {name} is {text!r}; allowed: '[out|inout] TYPE[EXTENT, ...]' with TYPE one of "
            f"{', '.join(STORAGE_DTYPES)}"
        )
    extents = [part.strip() for part in found[3].split(",") if part.strip()]
    shape = tuple(int(part) if part.isdigit() else part for part in extents)
    parameters = jit_function(kernel).arg_names if kernel is not None else ()
    apart = len(shape) > 1 and f"{name}_stride" in parameters
    role = cast("Literal['in', 'out', 'inout']", (found[1] or "in").strip())
    return Tensor(name, found[2], shape, name, role=role, strides="rows" if apart else "contiguous")


def _of(kind: Callable[..., Clause], name: str, *rest: Any) -> Requirement:
    def clause(tensors: Mapping[str, Tensor]) -> Clause:
        if name not in tensors:
            raise ValueError(f"a clause speaks of tensor {name!r}; allowed: {', '.join(tensors)}")
        return kind(tensors[name], *rest)

    return clause


def at_least(tensor: str, low: int) -> Requirement:
    """Every element is at least a number."""
    return _of(kinds.at_least, tensor, low)


def at_most(tensor: str, high: Extent) -> Requirement:
    """Every element is at most an extent."""
    return _of(kinds.at_most, tensor, high)


def below(tensor: str, stop: Extent) -> Requirement:
    """Every element is below an extent; negative ones may be."""
    return _of(kinds.below, tensor, stop)


def between(tensor: str, low: int, stop: Extent) -> Requirement:
    """Every element is in a range that ends before an extent."""
    return _of(kinds.between, tensor, low, stop)


def rising(tensor: str) -> Requirement:
    """No element is larger than the next."""
    return _of(kinds.rising, tensor)


def consecutive(tensor: str) -> Requirement:
    """Each element is the one before it and 1."""
    return _of(kinds.consecutive, tensor)


def distinct(tensor: str) -> Requirement:
    """No two elements are equal, unless negative."""
    return _of(kinds.distinct, tensor)


def writes(
    tensor: str,
    over: Mapping[str, Extent],
    row: Callable[..., Any],
    when: Callable[..., Any] = lambda *_: True,
) -> Access:
    """The rows of a tensor that must be written.

    Args:
        tensor: which one.
        over: the stop of each index, by the index's name; each begins at 0.
        row: ``row(a, *indices)``: the row, or the coordinates as a tuple.
        when: ``when(a, *indices)``: whether there is anything to write.
    """

    return _write("must", tensor, over, row, when)


def may_write(
    tensor: str,
    over: Mapping[str, Extent],
    row: Callable[..., Any],
    when: Callable[..., Any] = lambda *_: True,
) -> Access:
    """The rows of a tensor that may be written, but need not be; arguments as of :func:`writes`."""
    return _write("may", tensor, over, row, when)


def _write(
    mode: Literal["must", "may"],
    tensor: str,
    over: Mapping[str, Extent],
    row: Callable[..., Any],
    when: Callable[..., Any],
) -> Access:
    def cell(a: Any, *indices: Any) -> tuple[Any, ...]:
        found = row(a, *indices)
        return cast("tuple[Any, ...]", found) if isinstance(found, tuple) else (found,)

    def stop(extent: Extent) -> Callable[..., Any]:
        return lambda a, *_: extent_of(a, extent)

    indices = tuple(Index(name, stop=stop(extent)) for name, extent in over.items())
    return Access(tensor, mode, indices, when, cell, f"its rows over {', '.join(over)}")


def contract_of(
    kernel: Any,
    tensors: Mapping[str, str],
    *,
    requires: Sequence[Requirement | Clause] = (),
    writes: Sequence[Access] | Access = (),
    scalars: Sequence[str] = (),
) -> Contract:
    """The contract of a kernel in short.

    Args:
        kernel: ``@triton.jit`` function.
        tensors: text of each tensor by name: see :func:`tensor_of`.
        requires: what the caller guarantees.
        writes: what must be written, or may be; nothing else may, and a tensor that is not named here not at all.
        scalars: names of integer arguments that are no extents.

    Raises:
        ValueError: a tensor's text, or a clause about a tensor that is not there.
    """
    known = {name: tensor_of(name, text, kernel) for name, text in tensors.items()}
    clauses = [one if isinstance(one, Clause) else one(known) for one in requires]
    accesses = (writes,) if isinstance(writes, Access) else tuple(writes)
    name = jit_function(kernel).__name__
    arguments = (*known.values(), *(Scalar(scalar, scalar) for scalar in scalars))
    return Contract(name, name, arguments, tuple(clauses), (), accesses)
