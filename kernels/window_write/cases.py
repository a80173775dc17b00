"""Production-size inputs of the window write: decode and verify steps, and the tail of a prefill chunk."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from kvproof.kernels.benchmark import BenchCase, Cases, pattern
from kvproof.models.contract import contiguous
from kvproof.models.deepseek_v4 import CONFIGS, HEAD_DIM
from kvproof.models.row_space import CSA_RATIO

SLOTS = 64
"""Slots of the plane. A full-size plane (150 GB) would not fit beside another; rows are as far apart."""


def cases() -> Mapping[str, BenchCase]:
    """By name: decode batches of 1 to 512 requests with 1 to 8 query tokens, and prefill chunks. bf16 rows."""
    found = {
        f"decode-b{b}-q{q}": partial(_case, "v4-pro-dspark", b, q) for b in (1, 8, 64, 512) for q in (1, 4, 8)
    }
    found["prefill-b1-t8192"] = partial(_case, "v4-flash", 1, 8192)
    found["prefill-b16-t512"] = partial(_case, "v4-flash", 16, 512)
    # The whole ring of many requests: 8,192 rows, and as many as fill a chip.
    found |= {f"prefill-b{b}-t128": partial(_case, "v4-flash", b, 128) for b in (64, 1024)}
    return Cases(found)


def _case(name: str, sequences: int, tokens: int) -> BenchCase:
    config = CONFIGS[name]
    slots = max(SLOTS, sequences)
    # Windows only: the arena moves no row of this kernel's and would make the plane ten times larger.
    geometry = config.geometry(0, 0)
    window = geometry.window_params(CSA_RATIO)
    stride = geometry.entry_rows
    window = type(window)(0, stride, window.ring_slots, window.ring_stride, window.run_rows)
    total = sequences * tokens
    written = sequences * min(tokens, window.ring_slots)
    start = 4096 + 17 * np.arange(sequences)
    rows = slots * stride
    # Requests sit in slots in no order.
    placed = np.random.default_rng(0).permutation(slots)[:sequences]
    return BenchCase(
        values={
            "kv": contiguous("bf16", pattern("bf16", total * HEAD_DIM), (total, HEAD_DIM)),
            "positions": contiguous("int32", (start[:, None] + np.arange(tokens)).reshape(-1)),
            "cu_seqlens_q": contiguous("int32", np.arange(sequences + 1) * tokens),
            "state_slot_per_seq": contiguous("int32", placed),
            "pool": contiguous("bf16", np.zeros(rows * HEAD_DIM, np.uint16), (rows, HEAD_DIM)),
            "window": window,
            "write_per_batch": min(tokens, window.ring_slots),
        },
        bytes_moved=written * (2 * HEAD_DIM * 2 + 4) + sequences * (4 + 4) + 4,
    )
