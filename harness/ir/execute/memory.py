"""Device memory: storages of bytes, and segments, through which a pointer argument reaches one of them.

A pointer is a 64-bit address. Every pointer argument starts a segment of its own, far from all others, so
an address tells which tensor it came from, and arithmetic on it is the device's. What may be touched through
a segment is exactly the tensor's view: not the rows between its rows, nor what else its storage holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from kvproof.harness.ir.execute.values import Array, carrier

SEGMENT_BITS = 44


@dataclass(eq=False, slots=True)
class Storage:
    """Bytes that one or more tensors are views of.

    Attributes:
        data: the bytes, one-dimensional and writable.
        written: which bytes hold a defined value; None if all do.
        narrowest: bytes of the narrowest store that wrote some of them; a power of 2, at most 8.
    """

    data: npt.NDArray[np.uint8]
    written: npt.NDArray[np.bool_] | None = None
    narrowest: int = 8
    _typed: dict[str, Array] = field(default_factory=dict, init=False)

    def typed(self, element: str) -> Array:
        """The bytes as an array of elements of the carrying type."""
        found = self._typed.get(element)
        if found is None:
            dtype = np.dtype(np.uint8 if element == "i1" else carrier(element))
            whole = self.data.size // dtype.itemsize * dtype.itemsize
            found = self._typed[element] = self.data[:whole].view(dtype)
        return found


_LISTED = 1 << 20
"""Elements of the largest view whose list of elements is kept: layouts outlive their launches."""


@dataclass(eq=False)
class Layout:
    """Which bytes a view of elements of ``item`` bytes covers, from its first one on. Shared by equal views.

    Attributes:
        shape, strides: the view; strides in elements.
        item: bytes of an element.
        span: bytes from its first element to the end of its last.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    item: int
    span: int = field(init=False)
    _cells: Array | None = field(default=None, init=False)
    _limits: dict[int, Any] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._dims, elements, self._dense, self._nested = _dimensions(self.shape, self.strides)
        self.span = elements * self.item

    def inside(self, offset: Array, width: int) -> Array:
        """Which accesses of ``width`` bytes at these byte offsets lie in the view."""
        # One comparison: a negative offset is a huge one when read as unsigned.
        limit = self._limits.get(width)
        if limit is None:
            limit = self._limits[width] = np.uint64(max(self.span - width, -1) % 2**64)
        within = offset.view(np.uint64) <= limit
        if self.span < width:
            within[...] = False
        if self._dense:
            return within
        first = np.where(within, offset, 0)
        result = within & self._in_view(first // self.item)
        if width > self.item:
            # Every item of it: the first may lie in one row and the last in the next.
            for byte in (*range(self.item, width - self.item, self.item), width - 1):
                result &= self._in_view((first + byte) // self.item)
        return result

    def _in_view(self, element: Array) -> Array:
        if not self._nested:
            return self._listed()[element]
        rest = element
        good = np.ones(element.shape, bool)
        for stride, extent in reversed(self._dims):
            coordinate = rest // stride
            good &= coordinate < extent
            rest = rest - coordinate * stride
        return good & (rest == 0)

    def _listed(self) -> Array:
        if self._cells is None:
            cells = np.zeros(self.span // self.item, bool)
            index = np.zeros((), np.int64)
            for extent, stride in zip(self.shape, self.strides, strict=True):
                index = index[..., None] + np.arange(extent) * stride
            cells[index] = True
            if cells.size > _LISTED:
                return cells
            self._cells = cells
        return self._cells


@lru_cache(maxsize=1024)
def layout(shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> Layout:
    """The layout of a view."""
    return Layout(shape, strides, item)


def _dimensions(
    shape: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[tuple[tuple[int, int], ...], int, bool, bool]:
    """Of a view: (stride, extent) of its dimensions, innermost first; elements from its first to its last; whether
    it has no gaps; whether each of its elements has one place only."""
    dims = tuple(sorted((s, n) for n, s in zip(shape, strides, strict=True) if n != 1))
    if 0 in shape:
        return dims, 0, True, True
    reach = 1
    dense = nested = True
    for stride, extent in dims:
        dense &= stride == reach
        # In rows that overlap, or a dimension expanded from one element, a cell has several coordinates.
        nested &= stride >= reach
        reach += stride * (extent - 1)
    return dims, 1 + sum((n - 1) * s for s, n in dims), dense, nested


class Segment:
    """What a pointer argument may touch.

    Attributes:
        name: argument.
        storage: its bytes.
        start: byte of the storage that the pointer points to.
        item: bytes of an element of the view.
        shape, strides: the view; strides in elements.
        layout: which bytes it covers.
        base: the pointer.
    """

    __slots__ = ("base", "item", "layout", "name", "shape", "start", "storage", "strides")

    def __init__(
        self,
        name: str,
        storage: Storage,
        start: int,
        item: int,
        shape: Sequence[int],
        strides: Sequence[int],
    ) -> None:
        self.name, self.storage, self.start, self.item = name, storage, start, item
        self.shape, self.strides = tuple(shape), tuple(strides)
        self.layout = layout(self.shape, self.strides, item)
        self.base = 0


class Memory:
    """The segments of one launch."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []

    def add(self, segment: Segment) -> int:
        """Give a segment its address."""
        self.segments.append(segment)
        segment.base = len(self.segments) << SEGMENT_BITS
        return segment.base

    def segment_of(self, address: int) -> Segment | None:
        """The segment that an address came from: the one whose base is nearest."""
        number = (address + (1 << (SEGMENT_BITS - 1))) >> SEGMENT_BITS
        return self.segments[number - 1] if 1 <= number <= len(self.segments) else None

    def numbers(self, address: Array) -> Array:
        """Number of the segment that each address came from."""
        return (address + (1 << (SEGMENT_BITS - 1))) >> SEGMENT_BITS
