"""Production-size inputs of the row scatter in two planes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kvproof.kernels.benchmark import BenchCase
from kvproof.kernels.row_scatter.cases import POOL_ROWS, TOKENS, scattered
from kvproof.models.contract import contiguous
from kvproof.models.deepseek_v4 import PLANES

PACKED, ROPE = (plane.row_bytes for plane in PLANES["fp8"])


def cases() -> Mapping[str, BenchCase]:
    """By name: packed rows of 512 bytes and RoPE rows of 128, to rows in no order."""
    return {name: _case(tokens, padded=name.startswith("decode")) for name, tokens in TOKENS.items()}


def _case(tokens: int, padded: bool) -> BenchCase:
    ids, live = scattered(tokens, padded)
    rope = ROPE // 2
    return BenchCase(
        values={
            "k_packed": contiguous("uint8", np.arange(tokens * PACKED, dtype=np.uint8), (tokens, PACKED)),
            "k_rope": contiguous("bf16", np.arange(tokens * rope, dtype=np.uint16), (tokens, rope)),
            **ids,
            "pool": contiguous("uint8", np.zeros(POOL_ROWS * PACKED, np.uint8), (POOL_ROWS, PACKED)),
            "pool_rope": contiguous("bf16", np.zeros(POOL_ROWS * rope, np.uint16), (POOL_ROWS, rope)),
        },
        bytes_moved=live * 2 * (PACKED + ROPE) + tokens * (4 + 4),
    )
