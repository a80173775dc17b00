"""Production-size inputs of unpacking."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kvproof.kernels.benchmark import BenchCase
from kvproof.models.contract import contiguous
from kvproof.models.packed_row import PACKED_BYTES, ROPE, SCALE_AT, USED_BYTES, WIDTH


def cases() -> Mapping[str, BenchCase]:
    """By rows: 512 (a decode batch) to 262,144, where more than 256 MB move."""
    return {f"rows{n}": _case(n) for n in (512, 8192, 262_144)}


def packed_rows(n: int) -> np.ndarray:
    """Packed rows [n, 512] of ordinary codes, scaled so that elements are of magnitude 2^-3 to 2."""
    mixed = np.arange(n * PACKED_BYTES, dtype=np.uint32) * np.uint32(2654435761)
    packed = ((mixed >> 24) & 0x9F | 0x60).astype(np.uint8).reshape(n, PACKED_BYTES)
    packed[packed & 0x7F == 0x7F] -= 1
    packed[:, SCALE_AT:USED_BYTES] = 127 - 8
    packed[:, USED_BYTES:] = 0
    return packed


def _case(n: int) -> BenchCase:
    return BenchCase(
        values={
            "packed": contiguous("uint8", packed_rows(n)),
            "rope": contiguous("bf16", np.full((n, ROPE), 0x3F80, np.uint16)),
            "out": contiguous("bf16", np.zeros((n, WIDTH), np.uint16)),
            "variant": "ocp",
        },
        bytes_moved=n * (PACKED_BYTES + 2 * ROPE + 2 * WIDTH),
    )
