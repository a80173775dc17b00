"""Scratch memory of the two attention mega kernels: families, a rank's share, regions and their layout."""

from kvproof.models.scratch.dims import (
    FAMILIES,
    GROUP,
    HEAD_DIM,
    HEAD_TILE,
    HEADS_PER_FLAG,
    TOKEN_TILE,
    Dims,
    ScratchFamily,
    dims,
    scratch_systems,
)
from kvproof.models.scratch.layout import (
    ALIGN_BYTES,
    PAIR_BYTES,
    TOTAL_ALIGN_BYTES,
    Layout,
    Region,
    byte_layout,
    layout_end,
)
from kvproof.models.scratch.plan import (
    CHUNKS,
    ScratchPlan,
    back_regions,
    back_scratch,
    chunk_keys,
    front_end,
    front_regions,
    front_scratch,
)
from kvproof.models.scratch.tags import TAG_PERIOD, launch_tag

__all__ = [
    "ALIGN_BYTES",
    "CHUNKS",
    "FAMILIES",
    "GROUP",
    "HEADS_PER_FLAG",
    "HEAD_DIM",
    "HEAD_TILE",
    "PAIR_BYTES",
    "TAG_PERIOD",
    "TOKEN_TILE",
    "TOTAL_ALIGN_BYTES",
    "Dims",
    "Layout",
    "Region",
    "ScratchFamily",
    "ScratchPlan",
    "back_regions",
    "back_scratch",
    "byte_layout",
    "chunk_keys",
    "dims",
    "front_end",
    "front_regions",
    "front_scratch",
    "launch_tag",
    "layout_end",
    "scratch_systems",
]
