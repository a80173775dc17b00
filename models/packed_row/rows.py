"""The packed row: 512 bytes that hold a KV row's 448 NoPE elements as e4m3 in seven scaled tiles.

Bytes::

    [  0, 448)  the elements, 7 tiles of 64
    [448, 462)  the 7 scales as exponent bytes, each twice
    [462, 512)  zero

A tile's scale is ``2^e`` with the least ``e`` that brings its largest magnitude within the format, and not
below ``2^-13``; its byte is ``e + 127``, byte 0 stands for a scale of 0 and byte 255 for NaN. Elements are divided
by the scale, which is exact, and rounded to nearest, ties to even.

NaN and infinite elements do not count for the scale and become NaN; the rest of their tile is as without them.
The 64 RoPE elements of the row stay bf16 in a plane of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kvproof.models.packed_row.formats import Float8

NOPE = 448
"""Elements without position encoding."""
ROPE = 64
"""Elements with position encoding."""
WIDTH = NOPE + ROPE
"""Elements of one KV row."""
TILE = 64
"""Elements that share a scale."""
TILES = NOPE // TILE
SCALE_AT = NOPE
"""Byte of the first scale."""
USED_BYTES = SCALE_AT + 2 * TILES
"""Bytes before the zero padding."""
PACKED_BYTES = 512
SCALE_BIAS = 127
LEAST_SCALE_EXPONENT = -13
"""``ceil(log2(1e-4))``: the floor of a scale, which a tile of zeros gets."""


def scale_exponent(largest: npt.NDArray[Any], form: Float8) -> npt.NDArray[np.int64]:
    """``max(ceil(log2(largest / form.max)), -13)``, exactly, for finite magnitudes.

    The logarithm is not computed: ``largest = m * 2^e`` and ``form.max = M * 2^E`` with m and M in [0.5, 1) give
    ``e - E``, and one more if ``m > M``.
    """
    magnitude = np.asarray(largest, np.float64)
    mantissa, exponent = np.frexp(magnitude)
    top_mantissa, top_exponent = np.frexp(form.max)
    least = exponent.astype(np.int64) - int(top_exponent) + (mantissa > top_mantissa)
    return np.maximum(np.where(magnitude > 0, least, LEAST_SCALE_EXPONENT), LEAST_SCALE_EXPONENT)


def pack_rows(nope: npt.NDArray[np.float64], form: Float8) -> npt.NDArray[np.uint8]:
    """Packed bytes [n, 512] of NoPE elements [n, 448]."""
    tiles = nope.reshape(-1, TILES, TILE)
    largest = np.where(np.isfinite(tiles), np.abs(tiles), 0.0).max(axis=2, initial=0.0)
    exponent = scale_exponent(largest, form)
    packed = np.zeros((tiles.shape[0], PACKED_BYTES), np.uint8)
    packed[:, :NOPE] = form.encode(np.ldexp(tiles, -exponent[:, :, None])).reshape(-1, NOPE)
    packed[:, SCALE_AT:USED_BYTES] = np.repeat((exponent + SCALE_BIAS).astype(np.uint8), 2, axis=1)
    return packed


def unpack_rows(packed: npt.NDArray[np.uint8], form: Float8) -> npt.NDArray[np.float64]:
    """NoPE elements [n, 448] of packed bytes [n, 512]. The first of a scale's two bytes counts."""
    scale = packed[:, SCALE_AT:USED_BYTES:2].astype(np.int64)
    values = form.decode(packed[:, :NOPE]).reshape(-1, TILES, TILE)
    scaled = np.ldexp(values, np.where(scale > 0, scale - SCALE_BIAS, 0)[:, :, None])
    scaled = np.where(scale[:, :, None] > 0, scaled, values * 0.0)
    return np.where(scale[:, :, None] < 255, scaled, np.nan).reshape(-1, NOPE)
