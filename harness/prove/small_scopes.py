"""Every small layout, every address of it, by counting: what a proof says, checked without a solver.

Each layout's rows are computed for all addresses at once, by the specification on arrays, and counted. It covers
what no theorem does (a list of layers given by id, an optimal placement), up to the stated sizes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from kvproof.models.errors import LayoutError
from kvproof.models.row_space import (
    ABSENT_RATIO,
    CSA_RATIO,
    DENSE_RATIO,
    ENTRY_ORDER,
    HCA_RATIO,
    RowSpace,
    UnifiedPoolGeometry,
)
from kvproof.models.row_space.ring import entry_rows_for

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Scope:
    """Sizes up to which everything is tried.

    Attributes:
        layers: layers of a class.
        strides: block rows of a class.
        ring, arena, align: of the layout.
        blocks, slots, gap: of the plane.
    """

    layers: int = 2
    strides: tuple[int, ...] = (1, 2, 3)
    ring: int = 5
    arena: tuple[int, ...] = (0, 1, 3)
    align: tuple[int, ...] = (1, 2)
    blocks: int = 2
    slots: int = 2
    gap: tuple[int, ...] = (0, 1)


@dataclass(frozen=True)
class Counted:
    """What was counted.

    Attributes:
        layouts: layouts accepted.
        refused: sizes that the constructor refuses.
        addresses: rows computed.
        faults: what was found wrong, in words; empty is right.
    """

    layouts: int
    refused: int
    addresses: int
    faults: tuple[str, ...]


def count_row_spaces(scope: Scope = Scope()) -> Counted:
    """Compute every row of every row space in scope, and see that no two addresses meet and none is outside."""
    layouts = refused = addresses = 0
    faults: list[str] = []
    for sizes in _row_spaces(scope):
        try:
            space = RowSpace(**sizes)
        except LayoutError:
            refused += 1
            continue
        layouts += 1
        rows, outside = all_rows(space)
        addresses += len(rows)
        if outside or len(np.unique(rows)) != len(rows):
            faults.append(f"{sizes}")
    return Counted(layouts, refused, addresses, tuple(faults))


def all_rows(space: RowSpace) -> tuple[Rows, bool]:
    """The plane row of every address: windows, compressed rows and state; and whether any is outside its part."""
    parts: list[Rows] = []
    outside = False
    slots = space.slot_positions - 1 - np.arange(space.num_slots, dtype=np.int64)
    blocks = np.arange(space.num_blocks, dtype=np.int64)
    for ratio, rows in space.class_rows.items():
        layers = np.arange(rows.num_layers, dtype=np.int64)
        base = np.array([rows.base_row(int(layer)) for layer in layers])
        if space.num_slots:
            slot, layer, position = np.meshgrid(
                slots, np.arange(len(layers)), np.arange(space.ring_slots), indexing="ij"
            )
            found = base[layer] + space.window_params(ratio).index(slot, position)
            start = (slot - space.slot_origin) * space.slot_rows + space.arena_rows
            outside |= bool(((found < start) | (found >= start + space.entry_rows)).any())
            parts.append(found.ravel())
        if ratio != DENSE_RATIO and space.num_blocks:
            block, layer, place = np.meshgrid(
                blocks, np.arange(len(layers)), np.arange(rows.block_rows), indexing="ij"
            )
            found = base[layer] + space.compress_row(ratio, block, place)
            start = block * space.envelope_rows
            outside |= bool(((found < start) | (found >= start + space.envelope_rows)).any())
            parts.append(found.ravel())
    for slot in slots:
        first, stop = space.arena_span(int(slot))
        parts.append(np.arange(first, stop, dtype=np.int64))
    merged = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    outside |= bool(len(merged)) and bool((merged.min() < 0) | (merged.max() >= space.plane_rows))
    return merged, outside


def _row_spaces(scope: Scope) -> Iterator[dict[str, Any]]:
    for dense, hca, csa in itertools.product(range(scope.layers + 1), repeat=3):
        counts = {r: n for r, n in zip(ENTRY_ORDER, (dense, hca, csa), strict=True) if n}
        compressed = [ratio for ratio in (HCA_RATIO, CSA_RATIO) if ratio in counts]
        for strides in itertools.product(scope.strides, repeat=len(compressed)):
            for ring, arena, align, blocks, slots, gap in itertools.product(
                range(1, scope.ring + 1),
                scope.arena,
                scope.align,
                range(scope.blocks + 1),
                range(scope.slots + 1),
                scope.gap,
            ):
                sizes: dict[str, Any] = {
                    "counts": counts,
                    "block_rows": dict(zip(compressed, strides, strict=True)),
                    "num_blocks": blocks,
                    "num_slots": slots,
                    "ring_slots": ring,
                    "arena_rows": arena,
                    "slot_align_rows": align,
                }
                if gap:
                    try:
                        tight = RowSpace(**{**sizes, "num_slots": 0})
                    except LayoutError:
                        continue
                    held = slots + gap + -(-blocks * tight.envelope_rows // tight.slot_rows)
                    sizes |= {"plane_rows": held * tight.slot_rows + 1, "slot_positions": held + gap}
                yield sizes


def count_layer_lists(longest: int = 5, ring: int = 4) -> Counted:
    """Every list of layers up to a length: the addresses by layer id are those by class and place in it."""
    layouts = refused = addresses = 0
    faults: list[str] = []
    ratios = (*ENTRY_ORDER, ABSENT_RATIO)
    for length in range(1, longest + 1):
        for layers in itertools.product(ratios, repeat=length):
            for slots in range(1, ring + 1):
                try:
                    space = UnifiedPoolGeometry(list(layers), 2, 2, slots, 128, arena_rows=1)
                except LayoutError:
                    refused += 1
                    continue
                layouts += 1
                addresses += length
                if not _by_id(space):
                    faults.append(f"{layers} with ring {slots}")
    return Counted(layouts, refused, addresses, tuple(faults))


def _by_id(space: UnifiedPoolGeometry) -> bool:
    places: dict[int, int] = {}
    for layer, ratio in enumerate(space.ratios):
        if ratio == ABSENT_RATIO:
            continue
        place = places.get(ratio, 0)
        places[ratio] = place + 1
        rows = space.rows_of(ratio)
        slot = space.physical_slot(0)
        row = space.absolute_row(layer, space.window_index(layer, slot, 0))
        if space.layer_base_row(layer) != rows.base_row(place):
            return False
        if row != rows.base_row(place) + space.window_row(ratio, slot, 0):
            return False
    return all(len(space.classes[ratio].layers) == count for ratio, count in places.items())


def count_heights(layers: int = 4, stride: int = 4, ring: int = 6) -> Counted:
    """Every class shape in scope: a search over all shared offsets finds none lower than the construction."""
    faults: list[str] = []
    shapes = tried = 0
    for n, s, r in itertools.product(range(1, layers + 1), range(1, stride + 1), range(1, ring + 1)):
        shapes += 1
        height = entry_rows_for(n, s, r)
        tried += height
        if fits(n, s, r, height - 1) or not fits(n, s, r, height):
            faults.append(f"{n} layers, stride {s}, ring {r}: height {height} is not the least")
    return Counted(shapes, 0, tried, tuple(faults))


def fits(layers: int, stride: int, ring: int, height: int) -> bool:
    """Whether some shared offsets place all rows of a class below a height, by exhaustive search.

    Which offsets a set of positions has does not depend on their order, so they are tried in rising order.
    """
    top = height - (layers - 1) * stride
    shifts = [layer * stride for layer in range(layers)]

    @cache
    def search(start: int, taken: int, left: int) -> bool:
        if not left:
            return True
        for offset in range(start, top):
            mask = sum(1 << (offset + shift) for shift in shifts)
            if not taken & mask and search(offset + 1, taken | mask, left - 1):
                return True
        return False

    return search(0, 0, ring)
