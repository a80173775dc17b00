"""Production-size inputs of prefill attention: chunks of 8192 tokens behind prefixes of up to 128k."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kvproof.kernels.attention_decode.cases import POOL_ROWS, SHARES
from kvproof.kernels.benchmark import BenchCase
from kvproof.kernels.fp8_pack.cases import bf16_rows
from kvproof.kernels.fp8_unpack.cases import packed_rows
from kvproof.models.contract import contiguous
from kvproof.models.deepseek_v4 import CONFIGS
from kvproof.models.packed_row import ROPE, USED_BYTES, WIDTH

CHUNK = 8192
WINDOW = 128


def cases() -> Mapping[str, BenchCase]:
    """By name: CSA and HCA layers, chunks of 8192 tokens behind 0, 32k and 128k tokens; 16 heads and 128."""
    found: dict[str, BenchCase] = {}
    for kv in ("bf16", "fp8"):
        for prefix in (0, 32_768, 131_072):
            for layer in ("csa", "hca"):
                found[f"{layer}-{kv}-t8192-p{prefix // 1024}k-h16"] = _case(kv, layer, CHUNK, prefix, 16)
        found[f"csa-{kv}-t2048-p128k-h128"] = _case(kv, "csa", 2048, 131_072, 128)
    return found


def _ragged(lengths: np.ndarray) -> np.ndarray:
    """Place of each entry within its token's slice."""
    starts = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum()) - np.repeat(starts, lengths)


def _case(kv: str, layer: str, tokens: int, prefix: int, heads: int) -> BenchCase:
    pos = prefix + np.arange(tokens)
    first_new = np.maximum(pos - WINDOW + 1, prefix)
    new = pos - first_new + 1
    old = first_new - np.maximum(pos - WINDOW + 1, 0)
    groups = np.minimum((pos + 1) // 4, CONFIGS["v4-flash"].index_topk) if layer == "csa" else (pos + 1) // 128
    listed = old + groups
    rng = np.random.default_rng(0)
    # A layer's rows of one request: its window and its groups, all of which the chunk's tokens share.
    rows = min(WINDOW + (prefix + tokens) // (4 if layer == "csa" else 128), POOL_ROWS)
    packed = kv == "fp8"
    row_bytes = USED_BYTES + 2 * ROPE if packed else 2 * WIDTH
    keys = int(listed.sum() + new.sum())
    return BenchCase(
        values={
            "q": contiguous("bf16", bf16_rows(tokens * heads), (tokens, heads, WIDTH)),
            "unified_kv": contiguous("uint8", packed_rows(rows))
            if packed
            else contiguous("bf16", bf16_rows(rows)),
            "kv_indices": contiguous("int32", rng.integers(0, rows, int(listed.sum()))),
            "kv_indptr": contiguous("int32", np.concatenate([[0], np.cumsum(listed)])),
            "kv": contiguous("bf16", bf16_rows(tokens)),
            "extend_indices": contiguous("int32", np.repeat(first_new - prefix, new) + _ragged(new)),
            "extend_indptr": contiguous("int32", np.concatenate([[0], np.cumsum(new)])),
            "attn_sink": contiguous("fp32", np.zeros(heads)),
            "scale": WIDTH**-0.5,
            "out": contiguous("bf16", np.zeros((tokens, heads, WIDTH), np.uint16)),
            "unified_kv_rope": contiguous("bf16", np.full((rows, ROPE), 0x3F00)) if packed else None,
            "variant": "ocp",
            "splits": 0,
        },
        bytes_moved=rows * row_bytes + tokens * (2 * WIDTH + 4 * WIDTH * heads) + 4 * (keys + 2 * tokens),
        operations=4 * keys * heads * WIDTH,
        share=SHARES[heads > 16],
    )
