"""Production-size inputs of appending: packed rows in pages of 64, indexer keys in pages of 32 and 64."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kvproof.kernels.benchmark import BenchCase
from kvproof.models.contract import contiguous
from kvproof.models.schema import ENTRY_FORMATS, INDEXER_FORMATS, EntryFormat

PAGES = 4096


def cases() -> Mapping[str, BenchCase]:
    """By name: a decode batch, a verify batch and a prefill chunk."""
    formats = {"packed": (ENTRY_FORMATS["packed"], 64), "indexer": (INDEXER_FORMATS["fp8"], 32)}
    return {
        f"{name}-t{tokens}{'-interleaved' * interleaved}": _case(entry, entries, tokens, interleaved)
        for name, (entry, entries) in formats.items()
        for tokens in (64, 4096)
        for interleaved in (False, True)
    }


def _case(entry: EntryFormat, entries: int, tokens: int, interleaved: bool) -> BenchCase:
    draw = np.random.default_rng(0)
    record = entry.data_bytes + entry.scale_bytes
    return BenchCase(
        values={
            "data": contiguous("uint8", draw.integers(0, 256, (tokens, entry.data_bytes))),
            "scales": contiguous("uint8", draw.integers(0, 256, (tokens, entry.scale_bytes))),
            "slot_mapping": contiguous("int64", draw.permutation(PAGES * entries)[:tokens]),
            "cache": contiguous("uint8", np.zeros((PAGES, entries * record), np.uint8)),
            "entries": entries,
            "interleaved": interleaved,
        },
        bytes_moved=tokens * (2 * record + 8),
    )
