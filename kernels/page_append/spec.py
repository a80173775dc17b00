"""Where appending puts an entry's records: from the page's definition in models/."""

from __future__ import annotations

from kvproof.models.index import Condition, IndexValue, maximum, within
from kvproof.models.schema import PageLayout


def known_slot(slot: IndexValue, blocks: IndexValue, entries: IndexValue) -> Condition:
    """Whether a slot is one of the cache's: a sentinel or a stale one is not."""
    return within(slot, 0, blocks * entries)


def data_cell(page: PageLayout, slot: IndexValue, byte: IndexValue) -> tuple[IndexValue, IndexValue]:
    """(page, byte in it) of a byte of the data record of a slot; of slot 0 for a sentinel."""
    block, place = page.locate(maximum(slot, 0))
    return block, page.data_offset(0, place) + byte


def scale_cell(page: PageLayout, slot: IndexValue, byte: IndexValue) -> tuple[IndexValue, IndexValue]:
    """Likewise of a byte of the scale record."""
    block, place = page.locate(maximum(slot, 0))
    return block, page.scale_offset(0, place) + byte
