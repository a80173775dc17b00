"""Production-size inputs of gathering: a window of packed rows, and the indexer keys of long contexts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kvproof.kernels.benchmark import BenchCase
from kvproof.models.contract import contiguous
from kvproof.models.schema import ENTRY_FORMATS, INDEXER_FORMATS, EntryFormat


def cases() -> Mapping[str, BenchCase]:
    """By name: records, sequences and entries of each."""
    packed, indexer = ENTRY_FORMATS["packed"], INDEXER_FORMATS["fp8"]
    return {
        "packed-b64-n128": _case(packed, 64, 64, 128, interleaved=False),
        "packed-b64-n128-interleaved": _case(packed, 64, 64, 128, interleaved=True),
        "indexer-b8-n8192": _case(indexer, 32, 8, 8192, interleaved=False),
        "indexer-b8-n8192-interleaved": _case(indexer, 32, 8, 8192, interleaved=True),
    }


def _case(entry: EntryFormat, entries: int, sequences: int, count: int, *, interleaved: bool) -> BenchCase:
    draw = np.random.default_rng(0)
    columns = -(-count // entries)
    blocks = sequences * columns
    record = entry.data_bytes + entry.scale_bytes
    return BenchCase(
        values={
            "cache": contiguous("uint8", draw.integers(0, 256, (blocks, entries * record), np.uint8)),
            "block_tables": contiguous("int32", draw.permutation(blocks).reshape(sequences, columns)),
            "starts": contiguous("int32", np.zeros(sequences, np.int32)),
            "counts": contiguous("int32", np.full(sequences, count)),
            "data": contiguous("uint8", np.zeros((sequences, count, entry.data_bytes), np.uint8)),
            "scales": contiguous("uint8", np.zeros((sequences, count, entry.scale_bytes), np.uint8)),
            "entries": entries,
            "interleaved": interleaved,
        },
        bytes_moved=sequences * (count * 2 * record + columns * 4 + 8),
    )
