"""Copy plans: the spans of rows that move a slot or a block, within a plane, between planes, or to an image.

A plan is in rows rather than bytes, so that it holds for every plane that is numbered alike; times a plane's row
bytes it is what the slot copy kernel gets. Slots and blocks keep their size whatever the pool's, so a request can
move to a pool of another size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvproof.models.index import IndexValue
from kvproof.models.row_space import UnifiedPoolGeometry


@dataclass(frozen=True)
class Span:
    """``rows`` rows from row ``source`` of one buffer to row ``target`` of another."""

    source: IndexValue
    target: IndexValue
    rows: IndexValue


def slot_to_image(space: UnifiedPoolGeometry, slot: int, image_row: int = 0) -> tuple[Span, ...]:
    """A whole slot, state and windows, to an image that starts at a row of its buffer."""
    start, stop = space.slot_span(slot)
    return (Span(start, image_row, stop - start),)


def image_to_slot(space: UnifiedPoolGeometry, slot: int, image_row: int = 0) -> tuple[Span, ...]:
    """The other way round."""
    start, stop = space.slot_span(slot)
    return (Span(image_row, start, stop - start),)


def slot_to_slot(space: UnifiedPoolGeometry, source: int, target: int) -> tuple[Span, ...]:
    """A slot to another of the same plane."""
    start, stop = space.slot_span(source)
    return (Span(start, space.slot_span(target)[0], stop - start),)


def blocks_to_blocks(
    space: UnifiedPoolGeometry, sources: Sequence[int], targets: Sequence[int]
) -> tuple[Span, ...]:
    """Whole blocks, one to one; the planes may be two of different sizes, since a block's rows count from 0."""
    rows = space.envelope_rows
    return tuple(Span(a * rows, b * rows, rows) for a, b in zip(sources, targets, strict=True))
