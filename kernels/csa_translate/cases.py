"""Production-size inputs of the CSA translate: decode and verify steps, and a prefill chunk."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from kvproof.kernels.benchmark import BenchCase, Cases
from kvproof.models.contract import contiguous
from kvproof.models.deepseek_v4 import CONFIGS
from kvproof.models.row_space import CSA_RATIO

CONTEXT = 8192


def cases() -> Mapping[str, BenchCase]:
    """By name: batches of 1 to 512 requests with 1 to 8 query tokens, and a chunk of 8192 tokens."""
    found = {
        f"b{b}-q{q}": partial(_case, "v4-flash", b, q, decode=True) for b in (1, 8, 64, 512) for q in (1, 4, 8)
    }
    found["pro-b512-q8"] = partial(_case, "v4-pro", 512, 8, decode=True)
    found["prefill-t8192"] = partial(_case, "v4-flash", 1, 8192, decode=False)
    return Cases(found)


def _case(name: str, sequences: int, queries: int, decode: bool) -> BenchCase:
    config = CONFIGS[name]
    geometry = config.geometry(num_blocks=0, num_slots=0)
    capacity = config.block_size // CSA_RATIO
    tokens, topk = sequences * queries, config.index_topk
    draw = np.random.default_rng(0)
    positions = np.tile(CONTEXT + np.arange(queries), sequences)
    columns = -(-(CONTEXT + queries) // config.block_size)
    blocks = draw.permutation(sequences * columns).reshape(sequences, columns)
    window = config.sliding_window if decode else 0
    # A chunk's own rows come from the forward, so only entries fill its slices.
    length = topk + window
    return BenchCase(
        values={
            "topk_local": contiguous("int32", draw.integers(0, CONTEXT // CSA_RATIO, (tokens, topk))),
            "block_tables": contiguous("int32", blocks),
            "positions": contiguous("int64", positions),
            "kv_indptr_csa": contiguous("int32", np.arange(tokens + 1) * length),
            "batch_id_per_token": contiguous("int32", np.repeat(np.arange(sequences), queries)),
            "skip_prefix_len_per_token": None if decode else contiguous("int32", np.zeros(tokens)),
            "kv_indices_csa": contiguous("int32", np.full(tokens * length, -1)),
            "envelope_rows": geometry.envelope_rows,
            "csa_block_capacity": capacity,
            "window_size": window,
        },
        # Entries in, rows out, each token's scalars, each block id once.
        bytes_moved=tokens * (topk * (4 + 4) + 8 + 4 + 4) + sequences * columns * 4,
    )
