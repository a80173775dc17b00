"""Production-size inputs of the window gather."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from kvproof.kernels.benchmark import BenchCase, Cases
from kvproof.models.contract import contiguous
from kvproof.models.deepseek_v4 import CONFIGS, HEAD_DIM
from kvproof.models.row_space import CSA_RATIO, WindowParams

REQUESTS = (1, 8, 64, 512, 2048)


def cases() -> Mapping[str, BenchCase]:
    """By name: windows of 128 bf16 rows of 1 KiB, of requests whose slots are in no order."""
    return Cases({f"b{b}-w128": partial(_case, b) for b in REQUESTS})


def windows(requests: int) -> tuple[int, dict[str, object]]:
    """(rows of the view, the other arguments) of so many requests; slots hold only windows."""
    config = CONFIGS["v4-flash-dspark"]
    geometry = config.geometry(0, 0)
    found = geometry.window_params(CSA_RATIO)
    # Of one class: the arena and the other classes only move rows apart, and would make the plane much larger.
    stride = geometry.classes[CSA_RATIO].entry_rows
    window = WindowParams(0, stride, found.ring_slots, found.ring_stride, found.run_rows)
    draw = np.random.default_rng(0)
    return (
        requests * stride,
        {
            "state_slot_per_seq": contiguous("int32", draw.permutation(requests)),
            "anchor_pos": contiguous("int32", 4096 + 17 * np.arange(requests)),
            "draft_window": config.sliding_window,
            "window": window,
        },
    )


def _case(requests: int) -> BenchCase:
    rows, rest = windows(requests)
    cells = requests * 128
    return BenchCase(
        values={
            "pool": contiguous("bf16", np.zeros(rows * HEAD_DIM, np.uint16), (rows, HEAD_DIM)),
            "out": contiguous("bf16", np.zeros(cells * HEAD_DIM, np.uint16), (requests, 128, HEAD_DIM)),
            **rest,
        },
        bytes_moved=cells * 2 * HEAD_DIM * 2 + requests * (4 + 4),
    )
