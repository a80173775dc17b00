"""Production-size inputs of the window write in two planes: those of the one-plane write, with packed rows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from kvproof.kernels.benchmark import BenchCase, Cases, pattern
from kvproof.kernels.window_write.cases import cases as one_plane_cases
from kvproof.models.contract import contiguous
from kvproof.models.deepseek_v4 import HEAD_DIM, PLANES

PACKED, ROPE = (plane.row_bytes for plane in PLANES["fp8"])


def cases() -> Mapping[str, BenchCase]:
    """By name: as of the one-plane write; rows of 512 and of 128 bytes."""
    one_plane = one_plane_cases()
    return Cases({name: partial(_planes, one_plane, name) for name in one_plane})


def _planes(one_plane: Mapping[str, BenchCase], name: str) -> BenchCase:
    case = one_plane[name]
    tokens, rows = case.values["kv"].shape[0], case.values["pool"].shape[0]
    rope = ROPE // 2
    kept = {name: value for name, value in case.values.items() if name not in {"kv", "pool"}}
    # What is not rows (positions, bounds, slots) is moved as well.
    written = case.bytes_moved // (2 * HEAD_DIM * 2 + 4)
    return BenchCase(
        values={
            "k_packed": contiguous("uint8", pattern("uint8", tokens * PACKED), (tokens, PACKED)),
            "k_rope": contiguous("bf16", pattern("bf16", tokens * rope), (tokens, rope)),
            "pool": contiguous("uint8", np.zeros(rows * PACKED, np.uint8), (rows, PACKED)),
            "pool_rope": contiguous("bf16", np.zeros(rows * rope, np.uint16), (rows, rope)),
            **kept,
        },
        bytes_moved=case.bytes_moved - written * 2 * (HEAD_DIM * 2 - PACKED - ROPE),
    )
