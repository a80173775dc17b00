"""What one layer's cache holds: entries of a block, indexer keys, window and uncompressed tail.

Names follow the public cache schema (``dsv4/cache/schema.py``), so that code written for it runs on this one;
where that schema is refuted, the value here is the sufficient one and the former stays as a function of its own.
All sizes are in entries; bytes follow from an :class:`~kvproof.models.schema.formats.EntryFormat`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from kvproof.models.deepseek_v4 import HEAD_DIM, ModelConfig
from kvproof.models.deepseek_v4.config import INDEXER_HEAD_DIM
from kvproof.models.errors import LayoutError
from kvproof.models.index import IndexValue, as_index, require
from kvproof.models.row_space.ratios import ABSENT_RATIO, CSA_RATIO, DENSE_RATIO, HCA_RATIO
from kvproof.models.schema.tail import pooled_positions, smallest_tail

BLOCK_SIZE_ORIGINAL_TOKENS = math.lcm(CSA_RATIO, HCA_RATIO)
"""Original tokens of a block: the least count that every compress ratio divides."""

ROPE_DIM = 64
"""Elements of an entry that carry the position; they stay bf16 in every format."""


class AttentionType(StrEnum):
    """How a layer attends to what lies before its window."""

    CSA = "CSA"
    HCA = "HCA"
    SWA = "SWA"


_TYPES: Mapping[int, AttentionType] = {
    DENSE_RATIO: AttentionType.SWA,
    # The window of such a layer is kept elsewhere and unquantised; its schema is still window-only.
    ABSENT_RATIO: AttentionType.SWA,
    CSA_RATIO: AttentionType.CSA,
    HCA_RATIO: AttentionType.HCA,
}


@dataclass(frozen=True)
class LayerSpec:
    """One layer of the schedule."""

    layer_idx: int
    attn: AttentionType


@dataclass(frozen=True)
class DSV4Config:
    """What the schema depends on.

    Attributes:
        csa_compression_ratio, hca_compression_ratio: positions that one compressed entry stands for.
        sliding_window: positions that attention reads uncompressed (W).
        head_dim: elements of an entry.
        rope_dim: elements of it that carry the position.
        indexer_head_dim: elements of an indexer key.
        draft_tokens: draft tokens a step (k).
    """

    csa_compression_ratio: int = CSA_RATIO
    hca_compression_ratio: int = HCA_RATIO
    sliding_window: int = 128
    head_dim: int = HEAD_DIM
    rope_dim: int = ROPE_DIM
    indexer_head_dim: int = INDEXER_HEAD_DIM
    draft_tokens: int = 0

    def __post_init__(self) -> None:
        for name in ("csa_compression_ratio", "hca_compression_ratio", "sliding_window", "head_dim"):
            as_index(name, getattr(self, name), at_least=1)
        for name in ("indexer_head_dim", "draft_tokens"):
            as_index(name, getattr(self, name), at_least=0)
        as_index("rope_dim", self.rope_dim, at_least=0, below=self.head_dim + 1)

    @property
    def block_tokens(self) -> int:
        """Original tokens of a block: the least common multiple of the ratios."""
        return math.lcm(self.csa_compression_ratio, self.hca_compression_ratio)


@dataclass(frozen=True)
class LayerCacheSchema:
    """Cache of one layer, in entries. Sizes may be index values.

    Attributes:
        layer_idx: layer.
        attn_type: CSA, HCA or SWA (window only).
        entries_per_block: compressed entries of one block; 0 without compression.
        entry_head_dim: elements of one entry.
        rope_dim: elements of it that carry the position.
        indexer_entries_per_block: indexer keys of one block; 0 but for CSA.
        indexer_head_dim: elements of an indexer key; 0 but for CSA.
        swa_window_size: positions that attention reads uncompressed (W).
        tail_buffer_size: places of the ring of uncompressed positions, the smallest that suffices
            (:func:`~kvproof.models.schema.tail.smallest_tail`); 0 without compression.
        needs_inv_scale: whether a stored entry carries a scale.
        ratio: positions that one entry stands for; 0 without compression.
        overlap: whether an entry also pools the positions of the entry before it.
        block_tokens: original tokens of a block.
        draft_tokens: draft tokens a step (k).
    """

    layer_idx: int
    attn_type: AttentionType
    entries_per_block: IndexValue
    entry_head_dim: int
    rope_dim: int
    indexer_entries_per_block: IndexValue
    indexer_head_dim: int
    swa_window_size: IndexValue
    tail_buffer_size: IndexValue
    needs_inv_scale: bool = True
    ratio: IndexValue = 0
    overlap: bool = False
    block_tokens: IndexValue = BLOCK_SIZE_ORIGINAL_TOKENS
    draft_tokens: IndexValue = 0

    @property
    def pooled_positions(self) -> IndexValue:
        """Positions that one entry pools (K): its own, and with overlap those of the entry before."""
        return pooled_positions(self.ratio, self.overlap)

    @property
    def window_slots(self) -> IndexValue:
        """Ring places of the window: R = W + k, since a step writes k drafts before its first token reads."""
        return self.swa_window_size + self.draft_tokens

    def locate(self, entry: IndexValue) -> tuple[IndexValue, IndexValue]:
        """(block of the sequence, place in it) of a sequence's compressed entry.

        Raises:
            LayoutError: a layer without compressed entries, or a negative entry.
        """
        if self.attn_type is AttentionType.SWA:
            raise LayoutError(f"layer {self.layer_idx} is window-only and keeps no compressed entries")
        require(entry >= 0, "entry {entry} must not be negative", entry=entry)
        return entry // self.entries_per_block, entry % self.entries_per_block


def layer_schema(
    attn: AttentionType,
    ratio: IndexValue,
    *,
    layer_idx: int = 0,
    config: DSV4Config | None = None,
    block_tokens: IndexValue = None,
    window: IndexValue = None,
    draft_tokens: IndexValue = None,
) -> LayerCacheSchema:
    """Schema of a layer of the given kind, on index values.

    Args:
        attn: kind of layer.
        ratio: positions of an entry; ignored for a window-only layer.
        layer_idx: layer.
        config: dimensions, and what the arguments left out default to.
        block_tokens: original tokens of a block; a multiple of the ratio.
        window: sliding window in positions.
        draft_tokens: draft tokens a step.

    Raises:
        LayoutError: a block that the ratio does not divide: its last entry would straddle two blocks.
    """
    config = config or DSV4Config()
    block_tokens = config.block_tokens if block_tokens is None else block_tokens
    window = config.sliding_window if window is None else window
    draft_tokens = config.draft_tokens if draft_tokens is None else draft_tokens
    require(block_tokens >= 1, "block_tokens must be at least 1, got {value}", value=block_tokens)
    entries: IndexValue = 0
    tail: IndexValue = 0
    overlap = attn is AttentionType.CSA
    if attn is AttentionType.SWA:
        ratio = 0
    else:
        require(ratio >= 1, "ratio must be at least 1, got {ratio}", ratio=ratio)
        require(
            block_tokens % ratio == 0,
            "block_tokens is {block_tokens}, not a multiple of ratio {ratio}",
            block_tokens=block_tokens,
            ratio=ratio,
        )
        entries = block_tokens // ratio
        tail = smallest_tail(ratio, overlap, draft_tokens)
    return LayerCacheSchema(
        layer_idx=layer_idx,
        attn_type=attn,
        entries_per_block=entries,
        entry_head_dim=config.head_dim,
        rope_dim=config.rope_dim,
        indexer_entries_per_block=entries if attn is AttentionType.CSA else 0,
        indexer_head_dim=config.indexer_head_dim if attn is AttentionType.CSA else 0,
        swa_window_size=window,
        tail_buffer_size=tail,
        ratio=ratio,
        overlap=overlap,
        block_tokens=block_tokens,
        draft_tokens=draft_tokens,
    )


def build_schema(config: DSV4Config, spec: LayerSpec) -> LayerCacheSchema:
    """Schema of one layer of a model."""
    ratio = {
        AttentionType.CSA: config.csa_compression_ratio,
        AttentionType.HCA: config.hca_compression_ratio,
        AttentionType.SWA: 0,
    }[spec.attn]
    return layer_schema(spec.attn, ratio, layer_idx=spec.layer_idx, config=config)


def schema_config(model: ModelConfig) -> DSV4Config:
    """What the schema depends on, of a model as served."""
    return DSV4Config(sliding_window=model.sliding_window, draft_tokens=model.draft_tokens)


def layer_schedule(model: ModelConfig) -> list[LayerSpec]:
    """The kind of every layer of a model, draft layers last."""
    return [LayerSpec(layer, _TYPES[ratio]) for layer, ratio in enumerate(model.ratios)]


def model_schemas(model: ModelConfig) -> list[LayerCacheSchema]:
    """Schema of every layer of a model, draft layers last."""
    config = schema_config(model)
    return [build_schema(config, spec) for spec in layer_schedule(model)]
