"""The compressor state of a request: its fields and how they share the planes of a slot's arena.

A field's ring holds the pooled positions of one compressed entry (twice the ratio for CSA, whose entries
overlap; the ratio for HCA) plus one position per draft token, which a rejected draft must not overwrite.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from kvproof.models.errors import LayoutError
from kvproof.models.index import as_index, cdiv, round_up

FIELD_ALIGN_BYTES = 256
"""Every field starts at a multiple of this: the kernels retype a state view from such a boundary."""


@dataclass(frozen=True)
class Plane:
    """One plane of the pool: a buffer of equal rows that shares its row numbers with the other planes.

    Attributes:
        name: "nope", "rope" or "kv".
        row_bytes: bytes of a row.
    """

    name: str
    row_bytes: int

    def __post_init__(self) -> None:
        as_index("row_bytes", self.row_bytes, at_least=1)


@dataclass(frozen=True)
class StateField:
    """One tensor of a request's state.

    Attributes:
        name: field name.
        shape: (layers, ring positions, width).
        dtype: "fp32" or "bf16".
        fill: value that a fresh request's field holds.
        align_bytes: the field starts at a multiple of this.
        window_row_bytes: for a field that is a sliding window, bytes of one of its rows; else None.
    """

    name: str
    shape: tuple[int, int, int]
    dtype: str
    fill: float
    align_bytes: int = FIELD_ALIGN_BYTES
    window_row_bytes: int | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the field for one request."""
        return math.prod(self.shape) * {"fp32": 4, "bf16": 2}[self.dtype]


@dataclass(frozen=True)
class PlacedField:
    """A field at its place: ``offset`` bytes after the slot's start in plane ``plane`` (its number)."""

    field: StateField
    plane: int
    offset: int


@dataclass(frozen=True)
class StateLayout:
    """The arena of a slot: each field's place, and the rows it takes off the front of a slot.

    Attributes:
        planes: planes in order.
        placed: fields in declared order.
        arena_rows: rows of the arena: the most that any plane needs.
        used_bytes: bytes that fields (and the alignment between them) take in each plane.
    """

    planes: tuple[Plane, ...]
    placed: tuple[PlacedField, ...]
    arena_rows: int
    used_bytes: tuple[int, ...]

    @property
    def slot_align_rows(self) -> int:
        """Rows that a slot must be a multiple of: 2, and the plane rows of one row of a window field."""
        align = 2
        for item in self.placed:
            if item.field.window_row_bytes is not None:
                align = math.lcm(align, item.field.window_row_bytes // self.planes[item.plane].row_bytes)
        return align


def place_fields(fields: Sequence[StateField], planes: Sequence[Plane]) -> StateLayout:
    """Give each field a plane so that the arena takes the fewest rows.

    A field lies whole in one plane. Among assignments with equally few rows the first counts, with the
    first field as the fastest digit and plane 0 before plane 1. Within a plane the declared order stays.

    Args:
        fields: the state's fields in declared order, at most 16 of them.
        planes: the pool's planes, at least one.

    Raises:
        LayoutError: no plane, too many fields to search, or a window field whose row no plane divides.
    """
    return _place_fields(tuple(fields), tuple(planes))


@lru_cache(maxsize=64)
def _place_fields(fields: tuple[StateField, ...], planes: tuple[Plane, ...]) -> StateLayout:
    if not planes:
        raise LayoutError("planes is empty; a pool has at least one plane")
    if len(planes) ** len(fields) > 2**16:
        raise LayoutError(
            f"fields has {len(fields)} entries over {len(planes)} planes; at most {2**16} assignments are searched"
        )
    best: tuple[int, tuple[int, ...]] | None = None
    # itertools.product turns its last factor fastest; the first field is the fastest digit.
    for digits in itertools.product(range(len(planes)), repeat=len(fields)):
        assignment = digits[::-1]
        if not all(_fits(field, planes[plane]) for field, plane in zip(fields, assignment, strict=True)):
            continue
        ends = _offsets(fields, assignment, len(planes))[1]
        rows = max(cdiv(end, plane.row_bytes) for end, plane in zip(ends, planes, strict=True))
        if best is None or rows < best[0]:
            best = rows, assignment
    if best is None:
        raise LayoutError("fields holds a window whose row is a multiple of no plane's row")
    arena_rows, assignment = best
    offsets, ends = _offsets(fields, assignment, len(planes))
    placed = tuple(
        PlacedField(field, plane, offset) for field, plane, offset in zip(fields, assignment, offsets, strict=True)
    )
    return StateLayout(tuple(planes), placed, arena_rows, tuple(ends))


def _fits(field: StateField, plane: Plane) -> bool:
    """A window field is read through a view of the plane retyped to its rows, so those must divide."""
    return field.window_row_bytes is None or field.window_row_bytes % plane.row_bytes == 0


def _offsets(
    fields: Sequence[StateField], assignment: Sequence[int], num_planes: int
) -> tuple[list[int], list[int]]:
    """Byte offset of each field, and the end of the last field in each plane."""
    ends = [0] * num_planes
    offsets: list[int] = []
    for field, plane in zip(fields, assignment, strict=True):
        start = round_up(ends[plane], field.align_bytes)
        offsets.append(start)
        ends[plane] = start + field.nbytes
    return offsets, ends
