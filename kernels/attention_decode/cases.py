"""Production-size inputs of decode attention: decode and verify steps of the two models, in both KV types."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from kvproof.kernels.benchmark import BenchCase
from kvproof.kernels.fp8_pack.cases import bf16_rows
from kvproof.kernels.fp8_unpack.cases import packed_rows
from kvproof.models.contract import TensorValue, contiguous
from kvproof.models.deepseek_v4 import CONFIGS
from kvproof.models.packed_row import ROPE, USED_BYTES, WIDTH

POOL_ROWS = 262_144
"""Rows of the plane: 268 MB in bf16, several times a GPU's cache. A layer's view of a real plane is longer."""

SHARES = {False: 0.5, True: 0.3}
"""Share of its bound that a launch should reach, by whether it has more than 16 heads."""


def cases() -> Mapping[str, BenchCase]:
    """By name: batches of 1 to 512 requests with 1 to 8 query tokens; 16 heads (8 ranks) and 128 (one).

    CSA layers: the window and the selected entries. HCA layers at 128k tokens: the window and all groups.
    """
    found: dict[str, BenchCase] = {}
    csa = CONFIGS["v4-flash"].sliding_window + CONFIGS["v4-flash"].index_topk
    hca = CONFIGS["v4-pro"].sliding_window + 131_072 // 128
    for kv in ("bf16", "fp8"):
        for batch, queries in ((1, 1), (8, 4), (64, 1), (64, 8), (512, 1)):
            found[f"csa-{kv}-b{batch}-q{queries}-h16"] = _case(kv, batch * queries, csa, 16)
        found[f"hca-{kv}-b512-q1-h16"] = _case(kv, 512, hca, 16)
        found[f"csa-{kv}-b64-q1-h128"] = _case(kv, 64, csa, 128)
        found[f"csa-{kv}-b512-q1-h128"] = _case(kv, 512, csa, 128)
    return found


@cache
def _plane(packed: bool) -> TensorValue:
    """The plane, which all cases of one KV type share."""
    return contiguous("uint8", packed_rows(POOL_ROWS)) if packed else contiguous("bf16", bf16_rows(POOL_ROWS))


def _case(kv: str, tokens: int, keys: int, heads: int) -> BenchCase:
    entries = np.random.default_rng(0).integers(0, POOL_ROWS, tokens * keys)
    packed = kv == "fp8"
    row_bytes = USED_BYTES + 2 * ROPE if packed else 2 * WIDTH
    return BenchCase(
        values={
            "q": contiguous("bf16", bf16_rows(tokens * heads), (tokens, heads, WIDTH)),
            "unified_kv": _plane(packed),
            "kv_indices": contiguous("int32", entries),
            "kv_indptr": contiguous("int32", np.arange(tokens + 1) * keys),
            "attn_sink": contiguous("fp32", np.zeros(heads)),
            "scale": WIDTH**-0.5,
            "out": contiguous("bf16", np.zeros((tokens, heads, WIDTH), np.uint16)),
            "unified_kv_rope": contiguous("bf16", np.full((POOL_ROWS, ROPE), 0x3F00)) if packed else None,
            "variant": "ocp",
            "splits": 0,
        },
        bytes_moved=tokens * (keys * (row_bytes + 4) + 4 * WIDTH * heads + 4),
        operations=4 * tokens * keys * heads * WIDTH,
        share=SHARES[heads > 16],
    )
