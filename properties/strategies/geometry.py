"""Row spaces: every mix of classes, rings around the strides, gaps, arenas, planes numbered by another.

Planes stay small (at most a few thousand rows), so that a test can compare every row of one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.models.row_space import (
    ABSENT_RATIO,
    CSA_RATIO,
    DENSE_RATIO,
    HCA_RATIO,
    RowSpace,
    UnifiedPoolGeometry,
)
from kvproof.properties.strategies.draws import mostly, rarely, seldom_first, seldom_low

MAX_LAYERS = 6


@st.composite
def geometries(draw: st.DrawFn, *, min_slots: int = 0, min_blocks: int = 0) -> UnifiedPoolGeometry:
    """Any row space with at least one layer in it. Shrinks to one dense layer and a ring of one position.

    Args:
        min_slots, min_blocks: at least so many are in use.
    """
    ratios = draw(layer_ratios())
    block_size = draw(block_sizes(ratios))
    return draw(
        planes(
            {
                "ratios": ratios,
                "ring_slots": draw(ring_sizes(ratios, block_size)),
                "block_size": block_size,
                "arena_rows": draw(seldom_low(0, 9)),
                "slot_align_rows": draw(seldom_first([1, 2, 3, 8])),
            },
            min_slots=min_slots,
            min_blocks=min_blocks,
        )
    )


def layer_ratios() -> st.SearchStrategy[list[int]]:
    """Compress ratios of one to six layers, at least one of them in the row space."""
    classes = st.sampled_from([DENSE_RATIO, CSA_RATIO, HCA_RATIO, ABSENT_RATIO])
    some = st.lists(classes, min_size=1, max_size=MAX_LAYERS)
    return some.map(lambda ratios: ratios if set(ratios) != {ABSENT_RATIO} else [DENSE_RATIO, *ratios[1:]])


def block_sizes(ratios: list[int]) -> st.SearchStrategy[int]:
    """A block of one to three times what every class present divides."""
    return seldom_low(1, 3).map(lambda times: times * math.lcm(*(r for r in ratios if r > 0)))


@st.composite
def ring_sizes(draw: st.DrawFn, ratios: list[int], block_size: int) -> int:
    """Ring positions below, at and above the strides of the classes, and at multiples of them."""
    strides = sorted({block_size // r for r in ratios if r > 0})
    if not strides or draw(rarely()):
        return draw(seldom_low(1, 12))
    times, off = draw(seldom_first([1, 2, 3])), draw(st.sampled_from([0, 1, -1]))
    return max(draw(st.sampled_from(strides)) * times + off, 1)


@st.composite
def planes(
    draw: st.DrawFn, layout: Mapping[str, Any], *, min_slots: int = 0, min_blocks: int = 0, most: int = 4
) -> UnifiedPoolGeometry:
    """A plane for a layout: counts, a gap, rest rows under the topmost slot, and maybe a foreign numbering.

    Args:
        layout: arguments of ``UnifiedPoolGeometry`` other than counts and plane.
        min_slots, min_blocks: at least so many are in use.
        most: at most so many slots, blocks, and slots' worth of gap.
    """
    empty = UnifiedPoolGeometry(num_blocks=0, num_slots=0, **layout)
    num_blocks = draw(seldom_low(min_blocks, max(min_blocks, most)))
    num_slots = draw(seldom_low(min_slots, max(min_slots, most)))
    under = -(-num_blocks * empty.envelope_rows // empty.slot_rows)
    under = max(under, _least_under(empty) if num_slots else 0)
    gap = draw(seldom_low(0, most // 2))
    rest = draw(st.sampled_from([0, 1, empty.slot_rows - 1])) if draw(mostly()) else 0
    held = num_slots + under + gap
    return UnifiedPoolGeometry(
        num_blocks=num_blocks,
        num_slots=num_slots,
        plane_rows=held * empty.slot_rows + rest,
        slot_positions=held + draw(st.integers(1, 3)) if draw(rarely()) else None,
        **layout,
    )


def _least_under(empty: RowSpace) -> int:
    """Slot positions that must lie under the lowest slot, so that every class's view reaches its windows."""
    short = max(
        (rows.anchor - empty.arena_rows - rows.entry_offset for rows in empty.class_rows.values()), default=0
    )
    return max(-(-short // empty.slot_rows), 0)


def real_geometries(config: ModelConfig, *, min_slots: int = 0, min_blocks: int = 0) -> st.SearchStrategy[Any]:
    """Small planes of a real configuration: its layers, blocks, ring and arena, a few slots and blocks."""
    base = config.geometry(0, 0)
    layout = {
        "ratios": list(config.ratios),
        "ring_slots": base.ring_slots,
        "block_size": base.block_size,
        "arena_rows": base.arena_rows,
        "slot_align_rows": base.slot_align_rows,
    }
    return planes(layout, min_slots=min_slots, min_blocks=min_blocks)


def geometry_json(geometry: UnifiedPoolGeometry) -> dict[str, Any]:
    """A row space as JSON values; :func:`geometry_from_json` makes an equal one."""
    return {
        "ratios": list(geometry.ratios),
        "num_blocks": geometry.num_blocks,
        "num_slots": geometry.num_slots,
        "ring_slots": geometry.ring_slots,
        "block_size": geometry.block_size,
        "plane_rows": geometry.plane_rows,
        "arena_rows": geometry.arena_rows,
        "slot_positions": geometry.slot_positions,
        "slot_align_rows": geometry.slot_align_rows,
    }


def geometry_from_json(data: Mapping[str, Any]) -> UnifiedPoolGeometry:
    """The row space that :func:`geometry_json` wrote."""
    return UnifiedPoolGeometry(**data)
