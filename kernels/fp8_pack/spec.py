"""What packing gives, from the packed row's definition in models/."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kvproof.models.floats import from_bf16
from kvproof.models.packed_row import FORMATS, NOPE, pack_rows


def known_variant(variant: object) -> bool:
    """Whether there is an e4m3 variant of that name."""
    return variant in FORMATS


def packed_row(rows: npt.NDArray[Any], variant: str) -> npt.NDArray[np.uint8]:
    """Packed bytes [n, 512] of bf16 rows (bit patterns, [n, 512])."""
    return pack_rows(from_bf16(rows[:, :NOPE]), FORMATS[variant])


def rope_row(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """RoPE elements [n, 64] of bf16 rows."""
    return rows[:, NOPE:]
