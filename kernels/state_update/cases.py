"""Production-size inputs of the state update: decode and verify steps, and the tail of prefill chunks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from kvproof.kernels.benchmark import BenchCase, Cases
from kvproof.kernels.state_update.spec import pooled
from kvproof.models.contract import TensorValue, contiguous
from kvproof.models.deepseek_v4 import HEAD_DIM
from kvproof.models.row_space import CSA_RATIO, HCA_RATIO

CLASSES = {"csa": (CSA_RATIO, True, 2 * HEAD_DIM), "hca": (HCA_RATIO, False, HEAD_DIM)}
DRAFT_TOKENS = 3
MOST_STATE = 2**29
"""Elements between the first and the last slot of a state at most: 2 GiB."""


def cases() -> Mapping[str, BenchCase]:
    """By name: class, requests, and new tokens of each."""
    found = {
        f"{name}-b{b}-q{q}": partial(_case, name, b, q) for name in CLASSES for b in (1, 64, 512) for q in (1, 4)
    }
    # Of a chunk only what an entry pools is written; a chunk of that length fills a chip soonest.
    found |= {f"csa-prefill-b{b}-t512": partial(_case, "csa", b, 512) for b in (1, 16)}
    return Cases(found | {f"hca-prefill-b{b}-t128": partial(_case, "hca", b, 128) for b in (1, 16, 256)})


def _case(name: str, requests: int, tokens: int) -> BenchCase:
    ratio, overlap, dim = CLASSES[name]
    kept = min(tokens, pooled(ratio, overlap))
    ring = pooled(ratio, overlap) + DRAFT_TOKENS
    # In a pool slots are 16 MB apart; here as far as fits.
    stride = max(ring * dim, min(2**22, MOST_STATE // requests // dim * dim))
    place = np.arange(requests * kept)
    sequence = place // kept
    rows = sequence * tokens + tokens - kept + place % kept
    positions = 4096 + tokens - kept + place % kept
    draw = np.random.default_rng(0)
    inputs = draw.standard_normal(requests * tokens * dim, np.float32)
    state = TensorValue("fp32", np.zeros(requests * stride, np.float32), (requests, ring, dim), (stride, dim, 1))
    return BenchCase(
        values={
            "kv": contiguous("fp32", inputs, (requests * tokens, dim)),
            "score": contiguous("fp32", inputs[::-1], (requests * tokens, dim)),
            "ape": contiguous("fp32", draw.standard_normal(ratio * dim, np.float32), (ratio, dim)),
            "kv_state": state,
            "score_state": TensorValue("fp32", np.zeros_like(state.storage), state.shape, state.strides),
            "write_plan": contiguous("int32", np.stack([rows, sequence, positions, 0 * place], axis=1)),
            "state_slot_mapping": contiguous("int32", draw.permutation(requests)),
            "ratio": ratio,
            "overlap": overlap,
        },
        bytes_moved=requests * kept * (4 * dim * 4 + 4 * 4) + min(kept, ratio) * dim * 4 + requests * 4,
    )
