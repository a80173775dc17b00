"""Production-size inputs of the HCA head: contexts of 8192 and 131,072 tokens."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from kvproof.kernels.benchmark import BenchCase, Cases
from kvproof.models.contract import contiguous
from kvproof.models.deepseek_v4 import CONFIGS
from kvproof.models.row_space import HCA_RATIO


def cases() -> Mapping[str, BenchCase]:
    """By name: batches of 1 to 512 requests with 1 to 8 query tokens."""
    found = {f"b{b}-q{q}-c8192": partial(_case, b, q, 8192) for b in (1, 64, 512) for q in (1, 4, 8)}
    found |= {f"b{b}-q1-c131072": partial(_case, b, 1, 131_072) for b in (1, 64, 512)}
    return Cases(found)


def _case(sequences: int, queries: int, context: int) -> BenchCase:
    config = CONFIGS["v4-flash"]
    tokens, win = sequences * queries, config.sliding_window
    columns = -(-(context + queries) // config.block_size)
    geometry = config.geometry(num_blocks=sequences * columns, num_slots=sequences)
    groups = (context + 1) // HCA_RATIO
    blocks = np.random.default_rng(0).permutation(sequences * columns).reshape(sequences, columns)
    return BenchCase(
        values={
            "block_tables": contiguous("int32", blocks),
            "n_committed_hca_per_seq": contiguous("int32", np.full(sequences, groups)),
            "batch_id_per_token": contiguous("int32", np.repeat(np.arange(sequences), queries)),
            "positions": contiguous("int64", np.tile(context + np.arange(queries), sequences)),
            "hca_indptr": contiguous("int32", np.arange(tokens + 1) * (groups + win)),
            "hca_indices": contiguous("int32", np.full(tokens * (groups + win), -1)),
            "T": tokens,
            "win": win,
            "geometry": geometry,
        },
        bytes_moved=tokens * (4 * groups + 4 + 8 + 4) + sequences * 4 * (columns + 1),
    )
