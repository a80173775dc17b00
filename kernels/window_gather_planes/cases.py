"""Production-size inputs of the dequantising window gather."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from kvproof.kernels.benchmark import BenchCase, Cases
from kvproof.kernels.window_gather.cases import REQUESTS, windows
from kvproof.models.contract import contiguous
from kvproof.models.packed_row import PACKED_BYTES, ROPE, USED_BYTES, WIDTH


def cases() -> Mapping[str, BenchCase]:
    """By name: windows of 128 rows, of requests whose slots are in no order."""
    return Cases({f"b{b}-w128": partial(_case, b) for b in REQUESTS})


def _case(requests: int) -> BenchCase:
    rows, rest = windows(requests)
    cells = requests * 128
    return BenchCase(
        values={
            # Zero bytes unpack as fast as any others.
            "pool": contiguous("uint8", np.zeros(rows * PACKED_BYTES, np.uint8), (rows, PACKED_BYTES)),
            "pool_rope": contiguous("bf16", np.zeros(rows * ROPE, np.uint16), (rows, ROPE)),
            "out": contiguous("bf16", np.zeros(cells * WIDTH, np.uint16), (requests, 128, WIDTH)),
            **rest,
            "variant": "ocp",
        },
        bytes_moved=cells * (USED_BYTES + ROPE * 2 + WIDTH * 2) + requests * (4 + 4),
    )
