"""Production-size inputs of the row formulas."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kvproof.kernels.benchmark import BenchCase
from kvproof.models.contract import contiguous
from kvproof.models.deepseek_v4 import CONFIGS
from kvproof.models.row_space import HCA_RATIO


def cases() -> Mapping[str, BenchCase]:
    """By name: as many rows as an index builder computes in one forward."""
    return {f"rows{n}": _case(n) for n in (512, 65_536, 1_048_576)}


def _case(n: int) -> BenchCase:
    geometry = CONFIGS["v4-flash"].geometry(num_blocks=20_000, num_slots=512)
    window = geometry.window_params(HCA_RATIO)
    i = np.arange(n)
    return BenchCase(
        values={
            "slots": contiguous("int32", geometry.physical_slot(0) - i % 512),
            "positions": contiguous("int32", 4096 + i // 512),
            "blocks": contiguous("int32", i * 7919 % 20_000),
            "block_rows": contiguous("int32", i % 2),
            "plane_rows": contiguous("int32", i * 7919 % (geometry.held_slots * geometry.slot_rows)),
            "window_rows": contiguous("int64", np.zeros(n)),
            "compress_rows": contiguous("int64", np.zeros(n)),
            "offsets": contiguous("int64", np.zeros(n)),
            "window": window,
            "envelope_rows": geometry.envelope_rows,
            "row_stride": 512,
        },
        bytes_moved=n * (5 * 4 + 3 * 8),
    )
