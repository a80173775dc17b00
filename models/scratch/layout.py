"""A scratch buffer as named regions, one behind the other, each from an aligned byte."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kvproof.models.errors import LayoutError
from kvproof.models.index import IndexValue, maximum, require, round_up

ALIGN_BYTES = 256
"""Every region starts at a multiple of this: a cache line on any device, and any element type's alignment."""

TOTAL_ALIGN_BYTES = 4096
"""The whole buffer is a multiple of this: a page."""

PAIR_BYTES = 8
"""A mailbox pair or a flag: a 32-bit value and the 32-bit launch tag that says whose it is, stored at once."""


@dataclass(frozen=True)
class Region:
    """One region, as elements: ``nbytes`` follows, and both sides index by :meth:`element`.

    Attributes:
        name: region.
        extents: (name, size) of each dimension, slowest first.
        element_bytes: bytes of one element.
        kind: "data" (behind a flag), "flag" or "pair" (value and tag in one store).
        meaning: one line.
        writer, reader: the stage that publishes it and the one that consumes it.
    """

    name: str
    extents: tuple[tuple[str, IndexValue], ...]
    element_bytes: int
    kind: str
    meaning: str
    writer: str = ""
    reader: str = ""
    elements: IndexValue = field(init=False)

    def __post_init__(self) -> None:
        count: IndexValue = 1
        for name, size in self.extents:
            require(size >= 0, f"{self.name}: {name} must not be negative, got {{size}}", size=size)
            count = count * size
        object.__setattr__(self, "elements", count)

    @property
    def nbytes(self) -> IndexValue:
        """Bytes of the region."""
        return self.elements * self.element_bytes

    def element(self, *indices: IndexValue) -> IndexValue:
        """Row-major element number of the given coordinates.

        Raises:
            LayoutError: not one index a dimension, or an index outside its extent.
        """
        if len(indices) != len(self.extents):
            raise LayoutError(f"{self.name} has {len(self.extents)} dimensions, got {len(indices)} indices")
        number: IndexValue = 0
        for index, (name, size) in zip(indices, self.extents, strict=True):
            require(
                (index >= 0) & (index < size),
                f"{self.name}: {name} {{index}} outside 0..{{size}}",
                index=index,
                size=size,
            )
            number = number * size + index
        return number


Layout = Mapping[str, tuple[IndexValue, IndexValue]]
"""Region name to (byte offset, bytes), in order."""


def byte_layout(
    items: Iterable[tuple[str, IndexValue]], start: IndexValue = 0, align: int = ALIGN_BYTES
) -> dict[str, tuple[IndexValue, IndexValue]]:
    """Lay regions out in order, each from the first aligned byte at or past the end of the one before.

    Args:
        items: (name, bytes) of each region, names distinct.
        start: byte from which on regions may lie.
        align: every region starts at a multiple of this.

    Returns:
        Region name to (byte offset, bytes).

    Raises:
        LayoutError: a name given twice (the second region would replace the first), or a negative size.
    """
    require(start >= 0, "start must not be negative, got {start}", start=start)
    placed: dict[str, tuple[IndexValue, IndexValue]] = {}
    end = start
    for name, nbytes in items:
        if name in placed:
            raise LayoutError(f"region {name!r} is given twice")
        require(nbytes >= 0, f"region {name} must not have negative bytes, got {{nbytes}}", nbytes=nbytes)
        offset = round_up(end, align)
        placed[name] = offset, nbytes
        end = offset + nbytes
    return placed


def layout_end(layout: Layout, start: IndexValue = 0) -> IndexValue:
    """First byte past every region, or ``start`` if there is none."""
    end = start
    for offset, nbytes in layout.values():
        end = maximum(end, offset + nbytes)
    return end
