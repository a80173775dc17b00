"""The kinds of clauses that contracts of kernels are mostly made of, each from a tensor or two extents.

Written ``i`` and ``j`` in a clause's name are any indices of the tensor. A negative element says that there is
nothing there, so only :func:`at_least` speaks of negative ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvproof.models.contract import Clause, Index, Tensor

Extent = str | int


def extent_of(a: Any, extent: Extent) -> Any:
    """The value of an extent or scalar by name, or a number as it is."""
    return getattr(a, extent) if isinstance(extent, str) else extent


def indices_of(tensor: Tensor, names: str = "ijk", short: int = 0) -> tuple[Index, ...]:
    """An index for each dimension of a tensor, its first one ending ``short`` elements early."""

    def stop(extent: Extent, less: int) -> Callable[..., Any]:
        return lambda a, *_: extent_of(a, extent) - less

    return tuple(
        Index(name, stop=stop(extent, 0 if place else short))
        for place, (name, extent) in enumerate(zip(names, tensor.shape, strict=False))
    )


def _each(tensor: Tensor, words: str, holds: Callable[[Any, Any], Any]) -> Clause:
    def of(a: Any, *at: Any) -> Any:
        return holds(a, getattr(a, tensor.name)[at[0] if len(at) == 1 else at])

    indices = ", ".join("ijk"[: len(tensor.shape)])
    name = f"{tensor.name}[{indices}] {words}"
    return Clause(name, name, of, indices_of(tensor))


def at_least(tensor: Tensor, low: int) -> Clause:
    """Every element is at least a number."""
    return _each(tensor, f">= {low}", lambda _a, value: value >= low)


def at_most(tensor: Tensor, high: Extent) -> Clause:
    """Every element is at most an extent: the ends of slices."""
    return _each(tensor, f"<= {high}", lambda a, value: value <= extent_of(a, high))


def below(tensor: Tensor, stop: Extent) -> Clause:
    """Every element is below an extent: rows, slots, blocks that exist."""
    return _each(tensor, f"< {stop}", lambda a, value: value < extent_of(a, stop))


def between(tensor: Tensor, low: int, stop: Extent) -> Clause:
    """Every element is in a range that ends before an extent."""
    x = tensor.name
    indices = ", ".join("ijk"[: len(tensor.shape)])
    name = f"{low} <= {x}[{indices}] < {stop}"
    inner = _each(tensor, "", lambda a, value: (value >= low) & (value < extent_of(a, stop)))
    return Clause(name, name, inner.holds, inner.over)


def rising(tensor: Tensor) -> Clause:
    """No element is larger than the next: bounds of slices."""
    x = tensor.name
    name = f"{x}[i] <= {x}[i + 1]"
    return Clause(
        name, name, lambda a, i: getattr(a, x)[i] <= getattr(a, x)[i + 1], indices_of(tensor, "i", short=1)
    )


def consecutive(tensor: Tensor) -> Clause:
    """Each element is the one before it and 1: positions."""
    x = tensor.name
    name = f"{x}[i + 1] == {x}[i] + 1"
    return Clause(
        name, name, lambda a, i: getattr(a, x)[i + 1] == getattr(a, x)[i] + 1, indices_of(tensor, "i", short=1)
    )


def distinct(tensor: Tensor) -> Clause:
    """No two elements are equal, unless negative: destinations."""
    x = tensor.name
    name = f"{x}[i] != {x}[j] unless negative"

    def holds(a: Any, i: Any, j: Any) -> Any:
        values = getattr(a, x)
        return (i == j) | (values[i] < 0) | (values[i] != values[j])

    (first,) = indices_of(tensor, "i")
    second = Index("j", stop=lambda a, _i: extent_of(a, tensor.shape[0]))
    return Clause(name, name, holds, (first, second))


def not_below(extent: Extent, low: int) -> Clause:
    """An extent or scalar is at least a number."""
    name = f"{extent} >= {low}"
    return Clause(name, name, lambda a: extent_of(a, extent) >= low)


def no_larger(one: Extent, two: Extent) -> Clause:
    """One extent or scalar is at most another."""
    name = f"{one} <= {two}"
    return Clause(name, name, lambda a: extent_of(a, one) <= extent_of(a, two))
