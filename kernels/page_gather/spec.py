"""What gathering gives: entry by entry, from the page's definition in models/."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kvproof.kernels.index_spec import clamped
from kvproof.models.index import Condition, IndexValue, minimum, within
from kvproof.models.schema import PageLayout


def gathered(count: IndexValue, places: IndexValue) -> IndexValue:
    """Entries that are written of a sequence: no more than its result has places for."""
    return minimum(count, places)


def block_of(block_tables: Any, b: IndexValue, entry: IndexValue, entries: IndexValue, columns: Any) -> IndexValue:
    """Physical block of a sequence's entry; that of the nearest column if the table has none."""
    return block_tables[b, clamped(entry // entries, columns)]


def has_block(
    block: IndexValue, entry: IndexValue, entries: IndexValue, columns: IndexValue, blocks: IndexValue
) -> Condition:
    """Whether a sequence's entry lies in a page of the cache."""
    return (entry >= 0) & (entry < columns * entries) & within(block, 0, blocks)


def record_bytes(
    cache: npt.NDArray[Any],
    page: PageLayout,
    part: str,
    block: IndexValue,
    entry: IndexValue,
    byte: IndexValue,
    known: Condition,
) -> npt.NDArray[Any]:
    """Bytes of records as they lie in the cache; 0 where there is no block."""
    place = entry % page.entries
    offset = page.data_offset(0, place) if part == "data" else page.scale_offset(0, place)
    held = cache[np.where(known, block, 0), offset + byte]
    return np.where(known, held, 0)
