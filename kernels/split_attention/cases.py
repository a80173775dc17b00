"""Production-size inputs of the split attention: decode and verify steps of both families."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kvproof.kernels.benchmark import BenchCase
from kvproof.models.contract import contiguous
from kvproof.models.scratch import HEAD_DIM, ScratchPlan, dims

ROWS = 65_536


def cases() -> Mapping[str, BenchCase]:
    """By name: family, ranks, tokens and compressed keys."""
    wanted = {
        "v4-pro-tp8-t1": ("v4-pro", 8, 1024, 1),
        "v4-pro-tp8-t16": ("v4-pro", 8, 1024, 16),
        "v4-pro-tp8-t64": ("v4-pro", 8, 1024, 64),
        "v4-pro-tp8-t16-k8192": ("v4-pro", 8, 8192, 16),
        "v4-pro-tp4-t8": ("v4-pro", 4, 1024, 8),
        "v4.1-flash-tp4-t16": ("v4.1-flash", 4, 512, 16),
    }
    return {name: _case(*what) for name, what in wanted.items()}


def _case(family: str, tp: int, topk: int, tokens: int) -> BenchCase:
    rank = dims(family, tp, topk)
    plan = ScratchPlan(rank, tokens)
    draw = np.random.default_rng(0)
    keys = rank.keys
    rows = (draw.standard_normal((ROWS, HEAD_DIM)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    q = (draw.standard_normal((tokens, rank.heads, HEAD_DIM)).astype(np.float32).view(np.uint32) >> 16).astype(
        np.uint16
    )
    indices = np.stack([draw.permutation(ROWS)[:keys] for _ in range(tokens)])
    return BenchCase(
        values={
            "q": contiguous("bf16", q),
            "kv": contiguous("bf16", rows),
            "kv_indices": contiguous("int32", indices.reshape(-1)),
            "kv_indptr": contiguous("int32", np.arange(tokens + 1) * keys),
            "attn_sink": contiguous("fp32", draw.standard_normal(rank.heads).astype(np.float32)),
            "scratch": contiguous("uint8", np.zeros(plan.total_bytes, np.uint8)),
            "out": contiguous("fp32", np.zeros((tokens, rank.heads * HEAD_DIM), np.float32)),
            "status": contiguous("int32", [0]),
            "scale": HEAD_DIM**-0.5,
            "family": family,
            "tp": tp,
            "topk": topk,
            "chunk": 0,
            "launch_number": 0,
            "concurrent": False,
        },
        # Rows and indices once, queries once, outputs once; what goes through scratch is the method's own.
        bytes_moved=tokens * (keys * (2 * HEAD_DIM + 4) + rank.heads * HEAD_DIM * (2 + 4)),
    )
