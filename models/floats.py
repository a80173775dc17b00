"""The float formats that numpy lacks, exactly: bf16 as bit patterns, and rounding to it from float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

BF16_UNIT = 2.0**-7
"""Distance from 1 to the next bf16; a rounding to nearest is off by at most half of it, relatively."""

BF16_TINY = 2.0**-133
"""The least positive bf16; what is smaller than half of it rounds to 0."""

FP32_UNIT = 2.0**-23
"""Distance from 1 to the next fp32."""


def from_bf16(bits: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Values of bf16 bit patterns (uint16), exactly."""
    wide = np.asarray(bits, np.uint16).astype(np.uint32) << 16
    with np.errstate(invalid="ignore"):  # a signalling NaN turns quiet
        return wide.view(np.float32).astype(np.float64)


def to_bf16(values: npt.ArrayLike) -> npt.NDArray[np.uint16]:
    """Bit patterns of the nearest bf16, ties to even, rounded once from float64.

    What lies past the largest bf16 by half a step or more becomes an infinity; a NaN stays one, with its sign.
    """
    exact = np.asarray(values, np.float64)
    magnitude = np.abs(exact)
    # Rounding to a multiple of the step at the value's exponent; float64 holds every such quotient exactly.
    _, exponent = np.frexp(np.where(np.isfinite(magnitude), magnitude, 0.0))
    step = np.maximum(exponent - 8, -133)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.ldexp(np.rint(np.ldexp(magnitude, -step)), step)
        single = np.where(np.isfinite(magnitude), rounded, magnitude).astype(np.float32)
    bits = (single.view(np.uint32) >> 16).astype(np.uint16)
    bits = np.where(np.isnan(exact), np.uint16(0x7FC0), bits)
    return np.where(np.signbit(exact), bits | np.uint16(0x8000), bits).astype(np.uint16)
