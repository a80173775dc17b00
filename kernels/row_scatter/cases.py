"""Production-size inputs of the row scatter: decode and verify steps, and sizes that fill a chip."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from kvproof.kernels.benchmark import BenchCase, Cases, pattern
from kvproof.models.contract import contiguous
from kvproof.models.deepseek_v4 import HEAD_DIM

LEAST_ROWS = 8192
"""Rows of the smallest view; a larger batch has four rows a token."""

TOKENS = {f"decode-b{b}-q{q}": b * q for b in (1, 8, 64, 512) for q in (1, 4, 8)} | {
    "rows16384": 16_384,
    "rows131072": 131_072,
    "rows262144": 262_144,
}


def cases() -> Mapping[str, BenchCase]:
    """By name: bf16 rows of 1 KiB to rows in no order; one token in eight of a decode step is padding."""
    return Cases({name: partial(_case, tokens, name.startswith("decode")) for name, tokens in TOKENS.items()})


def pool_rows(tokens: int) -> int:
    """Rows of the view that so many tokens are scattered into."""
    return max(LEAST_ROWS, 4 * tokens)


def scattered(tokens: int, padded: bool) -> tuple[dict[str, object], int]:
    """(destination rows and batch ids of ``tokens`` tokens, how many of them are live)."""
    rows = np.random.default_rng(0).permutation(pool_rows(tokens))[:tokens]
    live = tokens - tokens // 8 if padded else tokens
    ids = np.where(np.arange(tokens) < live, np.arange(tokens), -1)
    return {"dest_rows": contiguous("int32", rows), "batch_id_per_token": contiguous("int32", ids)}, live


def _case(tokens: int, padded: bool) -> BenchCase:
    ids, live = scattered(tokens, padded)
    rows = pool_rows(tokens)
    return BenchCase(
        values={
            "kv": contiguous("bf16", pattern("bf16", tokens * HEAD_DIM), (tokens, HEAD_DIM)),
            **ids,
            "pool": contiguous("bf16", np.zeros(rows * HEAD_DIM, np.uint16), (rows, HEAD_DIM)),
        },
        bytes_moved=live * 2 * HEAD_DIM * 2 + tokens * (4 + 4),
    )
