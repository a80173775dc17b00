"""Production-size inputs of fused compression: prefill chunks, and decode steps that complete groups."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kvproof.kernels.benchmark import BenchCase
from kvproof.models.contract import contiguous
from kvproof.models.deepseek_v4 import CONFIGS
from kvproof.models.packed_row import PACKED_BYTES, ROPE, USED_BYTES, WIDTH
from kvproof.models.row_space import CSA_RATIO, HCA_RATIO


def cases() -> Mapping[str, BenchCase]:
    """By name: a prefill chunk of 8192 tokens, and decode steps in which every request completes an entry."""
    found: dict[str, BenchCase] = {}
    for kv in ("bf16", "fp8"):
        for layer, ratio in (("csa", CSA_RATIO), ("hca", HCA_RATIO)):
            found[f"{layer}-{kv}-prefill-t8192"] = _case(kv, ratio, 1, 8192)
            for batch in (1, 64, 512):
                found[f"{layer}-{kv}-decode-b{batch}"] = _case(kv, ratio, batch, 1)
    return found


def _case(kv: str, ratio: int, sequences: int, tokens: int) -> BenchCase:
    config = CONFIGS["v4-pro"]
    overlap = ratio == CSA_RATIO
    width = ratio * (2 if overlap else 1)
    dim = WIDTH * (2 if overlap else 1)
    block_rows = config.block_size // ratio
    # Prefill begins at position 0; a decode step's token completes the group that ends at position 4095.
    before = 0 if tokens > 1 else 4095
    columns = (before + tokens) // config.block_size
    blocks = columns * sequences
    # Blocks of this layer alone, packed: a real envelope has 61 layers' rows, as far apart as memory allows.
    rng = np.random.default_rng(0)
    ends = [t for t in range(tokens) if (before + t + 1) % ratio == 0]
    plan = [(b * tokens + t, b, before + t, width - min(t + 1, width)) for b in range(sequences) for t in ends]
    positions = before + tokens
    fresh = sum(min(t + 1, width) for t in ends) * sequences
    kept = sum(min(width, before + t + 1) - min(t + 1, width) for t in ends) * sequences
    packed = kv == "fp8"
    rows = blocks * block_rows
    row_bytes = USED_BYTES + 2 * ROPE if packed else 2 * WIDTH
    # Prefill pools each new row once or twice; it has to be read only once.
    read = min(fresh, tokens * sequences * 2) * WIDTH * 8 + kept * WIDTH * 8
    return BenchCase(
        values={
            "kv": contiguous("fp32", _floats(tokens * sequences * dim, 1), (tokens * sequences, dim)),
            "score": contiguous("fp32", _floats(tokens * sequences * dim, 2), (tokens * sequences, dim)),
            "ape": contiguous("fp32", _floats(ratio * dim, 3), (ratio, dim)),
            "kv_state": contiguous("fp32", _floats(sequences * width * dim, 4), (sequences, width, dim)),
            "score_state": contiguous("fp32", _floats(sequences * width * dim, 5), (sequences, width, dim)),
            "compress_plan": contiguous("int32", plan),
            "state_slot_mapping": contiguous("int32", rng.permutation(sequences)),
            "rms_weight": contiguous("fp32", np.ones(WIDTH)),
            "cos": contiguous("bf16", np.full((positions, ROPE // 2), 0x3F80)),
            "sin": contiguous("bf16", np.zeros((positions, ROPE // 2))),
            "block_tables": contiguous("int32", rng.permutation(blocks), (sequences, columns)),
            "pool": (
                contiguous("uint8", np.zeros((rows, PACKED_BYTES)))
                if packed
                else contiguous("bf16", np.zeros((rows, WIDTH)))
            ),
            "pool_rope": contiguous("bf16", np.zeros((rows, ROPE))) if packed else None,
            "envelope_rows": block_rows,
            "block_rows": block_rows,
            "blocks": blocks,
            "ratio": ratio,
            "overlap": overlap,
            "rms_eps": 1e-6,
            "variant": "ocp",
        },
        bytes_moved=read + len(plan) * (row_bytes + 16 + 4 * ROPE),
    )


def _floats(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(count, dtype=np.float32)
