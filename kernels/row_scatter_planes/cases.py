"""Production-size inputs of the row scatter in two planes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from kvproof.kernels.benchmark import BenchCase, Cases, pattern
from kvproof.kernels.row_scatter.cases import TOKENS, pool_rows, scattered
from kvproof.models.contract import contiguous
from kvproof.models.deepseek_v4 import PLANES

PACKED, ROPE = (plane.row_bytes for plane in PLANES["fp8"])


def cases() -> Mapping[str, BenchCase]:
    """By name: packed rows of 512 bytes and RoPE rows of 128, to rows in no order."""
    return Cases({name: partial(_case, tokens, name.startswith("decode")) for name, tokens in TOKENS.items()})


def _case(tokens: int, padded: bool) -> BenchCase:
    ids, live = scattered(tokens, padded)
    rope, rows = ROPE // 2, pool_rows(tokens)
    return BenchCase(
        values={
            "k_packed": contiguous("uint8", pattern("uint8", tokens * PACKED), (tokens, PACKED)),
            "k_rope": contiguous("bf16", pattern("bf16", tokens * rope), (tokens, rope)),
            **ids,
            "pool": contiguous("uint8", np.zeros(rows * PACKED, np.uint8), (rows, PACKED)),
            "pool_rope": contiguous("bf16", np.zeros(rows * rope, np.uint16), (rows, rope)),
        },
        bytes_moved=live * 2 * (PACKED + ROPE) + tokens * (4 + 4),
    )
