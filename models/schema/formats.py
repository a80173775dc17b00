"""Bytes of an entry for each choice of dtype, and where the entries of a block lie in a page.

A page is one block of one layer. Two formats are in use, and a writer of one with a reader of the other is
wrong from the second entry on: *data then scales* (all data records, then all scale records) and
*interleaved* (each entry's scale behind its data).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvproof.models.deepseek_v4 import HEAD_DIM
from kvproof.models.deepseek_v4.config import INDEXER_HEAD_DIM
from kvproof.models.index import IndexValue, as_index, require, round_up, within
from kvproof.models.schema.layers import ROPE_DIM, LayerCacheSchema


@dataclass(frozen=True)
class EntryFormat:
    """Bytes of one stored entry.

    Attributes:
        name: dtype choice.
        data_bytes: bytes of the data record.
        scale_bytes: bytes of the scale record; 0 for an unquantised entry.
        pad_bytes: bytes behind both that hold nothing.
        scale_align: both records start at a multiple of this.
    """

    name: str
    data_bytes: int
    scale_bytes: int
    pad_bytes: int = 0
    scale_align: int = 1

    @property
    def entry_bytes(self) -> int:
        """Bytes of an entry with its scale and padding."""
        return self.data_bytes + self.scale_bytes + self.pad_bytes


_NOPE = HEAD_DIM - ROPE_DIM
_TILES = _NOPE // 64

ENTRY_FORMATS: Mapping[str, EntryFormat] = {
    f.name: f
    for f in (
        EntryFormat("bf16", 2 * HEAD_DIM, 0),
        # The public schema: NoPE in fp8, RoPE in bf16, one fp32 inverse scale an entry.
        EntryFormat("fp8", _NOPE + 2 * ROPE_DIM, 4, scale_align=4),
        # Seven e8m0 exponents and a zero byte behind 448 e4m3 and 64 bf16.
        EntryFormat("packed", _NOPE + 2 * ROPE_DIM, 8, scale_align=8),
        # The row space's two planes together: each exponent twice, and 50 unused bytes.
        EntryFormat("planes", _NOPE + 2 * ROPE_DIM, 2 * _TILES, 512 - _NOPE - 2 * _TILES),
    )
}
"""Formats of a compressed entry or window row, by dtype choice."""

INDEXER_FORMATS: Mapping[str, EntryFormat] = {
    "fp8": EntryFormat("fp8", INDEXER_HEAD_DIM, 4, scale_align=4),
    "bf16": EntryFormat("bf16", 2 * INDEXER_HEAD_DIM, 0),
}
"""Formats of an indexer key, by dtype choice."""


@dataclass(frozen=True)
class PageLayout:
    """Where the entries of a block lie in its page, in bytes from the start of the cache.

    Attributes:
        entries: entries of a page, at least 1.
        data_bytes, scale_bytes: bytes of the two records of an entry.
        interleaved: each scale behind its data, rather than all data first.
        stride: bytes from page to page, at least the payload.
    """

    entries: IndexValue
    data_bytes: IndexValue
    scale_bytes: IndexValue
    interleaved: bool
    stride: IndexValue

    def __post_init__(self) -> None:
        as_index("entries", self.entries, at_least=1)
        as_index("data_bytes", self.data_bytes, at_least=1)
        as_index("scale_bytes", self.scale_bytes, at_least=0)
        as_index("stride", self.stride)
        require(
            self.stride >= self.payload,
            "stride is {stride} bytes, less than the {payload} bytes of a page's records",
            stride=self.stride,
            payload=self.payload,
        )

    @property
    def payload(self) -> IndexValue:
        """Bytes of a page's records."""
        return self.entries * (self.data_bytes + self.scale_bytes)

    def data_offset(self, block: IndexValue, place: IndexValue) -> IndexValue:
        """Byte where the data record of an entry starts.

        Raises:
            LayoutError: a negative block, or a place outside the page.
        """
        self._require_place(block, place)
        record = self.data_bytes + self.scale_bytes if self.interleaved else self.data_bytes
        return block * self.stride + place * record

    def scale_offset(self, block: IndexValue, place: IndexValue) -> IndexValue:
        """Byte where the scale record of an entry starts.

        Raises:
            LayoutError: a negative block, or a place outside the page.
        """
        self._require_place(block, place)
        if self.interleaved:
            within_page = place * (self.data_bytes + self.scale_bytes) + self.data_bytes
        else:
            within_page = self.entries * self.data_bytes + place * self.scale_bytes
        return block * self.stride + within_page

    def locate(self, slot: IndexValue) -> tuple[IndexValue, IndexValue]:
        """(block, place) of a cache slot.

        Raises:
            LayoutError: a negative slot. A sentinel must be filtered out before, never divided.
        """
        require(slot >= 0, "slot {slot} must not be negative", slot=slot)
        return slot // self.entries, slot % self.entries

    def _require_place(self, block: IndexValue, place: IndexValue) -> None:
        require(block >= 0, "block {block} must not be negative", block=block)
        require(within(place, 0, self.entries), "place {place} outside 0..{stop}", place=place, stop=self.entries)


def page_layout(entry: EntryFormat, entries: IndexValue, interleaved: bool = False, align: int = 1) -> PageLayout:
    """A page of ``entries`` entries, its stride rounded up to ``align`` bytes."""
    record = entry.data_bytes + entry.scale_bytes
    return PageLayout(entries, entry.data_bytes, entry.scale_bytes, interleaved, round_up(entries * record, align))


@dataclass(frozen=True)
class SchemaBytes:
    """A layer's cache in bytes.

    Attributes:
        block: one block's compressed entries.
        indexer_block: one block's indexer keys.
        window: one request's window, ring places included.
        tail: one request's ring of uncompressed positions, kv and score of each layer branch in fp32.
        indexer_tail: likewise for the indexer's branch.
    """

    block: IndexValue
    indexer_block: IndexValue
    window: IndexValue
    tail: IndexValue
    indexer_tail: IndexValue


def schema_bytes(schema: LayerCacheSchema, entry: EntryFormat, indexer: EntryFormat) -> SchemaBytes:
    """Bytes of a layer's cache for a choice of formats."""
    # kv and score, fp32; an overlapping entry keeps two projections a position, one for each entry it joins.
    per_position = 2 * 4 * (2 if schema.overlap else 1)
    return SchemaBytes(
        block=schema.entries_per_block * entry.entry_bytes,
        indexer_block=schema.indexer_entries_per_block * indexer.entry_bytes,
        window=schema.window_slots * entry.entry_bytes,
        tail=schema.tail_buffer_size * per_position * schema.entry_head_dim,
        indexer_tail=schema.tail_buffer_size * per_position * schema.indexer_head_dim,
    )


def convert_place(
    block: IndexValue, place: IndexValue, entries_from: IndexValue, entries_to: IndexValue
) -> tuple[IndexValue, IndexValue]:
    """The same entry of a sequence under another block size.

    Args:
        block: block of the sequence (a column of its table, not a physical id), not negative.
        place: entry in the block.
        entries_from: entries of a block before.
        entries_to: entries of a block after.
    """
    require(within(place, 0, entries_from), "place {place} outside 0..{stop}", place=place, stop=entries_from)
    entry = block * entries_from + place
    return entry // entries_to, entry % entries_to
