"""Production-size inputs of packing: the rows of a decode step, of a prefill chunk, and of many chunks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kvproof.kernels.benchmark import BenchCase
from kvproof.models.contract import contiguous
from kvproof.models.packed_row import PACKED_BYTES, ROPE, WIDTH


def cases() -> Mapping[str, BenchCase]:
    """By rows: 512 (a decode batch) to 262,144, where more than 256 MB move."""
    return {f"rows{n}": _case(n) for n in (512, 8192, 262_144)}


def bf16_rows(n: int) -> np.ndarray:
    """bf16 rows [n, 512] of magnitudes as a model has them, from 2^-3 to 2, as bit patterns."""
    mixed = np.arange(n * WIDTH, dtype=np.uint32) * np.uint32(2654435761)
    return ((mixed >> 16) & 0x81FF | 0x3E00).astype(np.uint16).reshape(n, WIDTH)


def _case(n: int) -> BenchCase:
    return BenchCase(
        values={
            "src": contiguous("bf16", bf16_rows(n)),
            "packed": contiguous("uint8", np.zeros((n, PACKED_BYTES), np.uint8)),
            "rope": contiguous("bf16", np.zeros((n, ROPE), np.uint16)),
            "variant": "ocp",
        },
        bytes_moved=n * (2 * WIDTH + PACKED_BYTES + 2 * ROPE),
    )
