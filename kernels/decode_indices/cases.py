"""Production-size inputs of the decode index build."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from kvproof.kernels.benchmark import BenchCase, Cases
from kvproof.kernels.decode_indices.contract import CLASSES
from kvproof.models.contract import contiguous
from kvproof.models.deepseek_v4 import CONFIGS
from kvproof.models.row_space import CSA_RATIO, DENSE_RATIO, HCA_RATIO

HEADS = {DENSE_RATIO: 0, CSA_RATIO: 512, HCA_RATIO: 64}
"""Cells before the window in a slice of each class: a context of 8192 tokens."""


def cases() -> Mapping[str, BenchCase]:
    """By name: batches of 1 to 512 requests with 1 to 8 query tokens, contexts of about 8192."""
    return Cases({f"b{b}-q{q}": partial(_case, b, q) for b in (1, 8, 64, 512) for q in (1, 4, 8)})


def _case(sequences: int, queries: int) -> BenchCase:
    config = CONFIGS["v4-flash-mtp1"]
    geometry = config.geometry(num_blocks=20_000, num_slots=sequences)
    tokens, win = sequences * queries, config.sliding_window
    start = 8192 + 17 * np.arange(sequences)
    slots = geometry.physical_slot(0) - np.random.default_rng(0).permutation(sequences)
    values: dict[str, object] = {
        "state_slot_per_seq": contiguous("int32", slots),
        "batch_id_per_token": contiguous("int32", np.repeat(np.arange(sequences), queries)),
        "positions": contiguous("int64", (start[:, None] + np.arange(queries)).reshape(-1)),
        "T": tokens,
        "win": win,
        "geometry": geometry,
    }
    for ratio, name in CLASSES.items():
        length = win + HEADS[ratio]
        values[f"{name}_indptr"] = contiguous("int32", np.arange(tokens + 1) * length)
        values[f"{name}_indices"] = contiguous("int32", np.full(tokens * length, -1))
        values[f"dest_rows_{name}"] = contiguous("int32", np.full(tokens, -1))
    # Of each class: the window's cells, both bounds of the slice, the own row.
    return BenchCase(values, bytes_moved=sequences * 4 + tokens * (4 + 8 + 3 * (win * 4 + 4 + 4)))
