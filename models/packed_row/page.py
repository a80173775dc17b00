"""The page of the packed cache: n data records, then n scale records, then padding up to the next page.

A data record holds a row's 448 NoPE elements as e4m3 in seven tiles of 64, then its 64 RoPE elements as bf16; a
scale record the seven scales as exponent bytes, then a zero byte. Where the records lie is
:class:`~kvproof.models.schema.PageLayout` with ``data_bytes=576, scale_bytes=8``.

A tile's scale is ``2^e`` with the least ``e`` that brings the larger of its largest magnitude and 1e-4 within
the format. In the row space's packed row the floor is on the scale instead: small tiles have other exponents.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kvproof.models.packed_row.formats import Float8
from kvproof.models.packed_row.rows import NOPE, ROPE, SCALE_BIAS, TILE, TILES

DATA_BYTES = NOPE + 2 * ROPE
"""Bytes of a data record."""
SCALE_BYTES = TILES + 1
"""Bytes of a scale record."""
LEAST_MAGNITUDE = 1e-4
"""Largest magnitude that a tile is taken to have at least."""


def page_scale_exponent(largest: npt.NDArray[Any], form: Float8) -> npt.NDArray[np.int64]:
    """``ceil(log2(max(largest, 1e-4) / form.max))``, exactly, for finite magnitudes."""
    magnitude = np.maximum(np.asarray(largest, np.float64), np.float64(np.float32(LEAST_MAGNITUDE)))
    mantissa, exponent = np.frexp(magnitude)
    top_mantissa, top_exponent = np.frexp(form.max)
    return exponent.astype(np.int64) - int(top_exponent) + (mantissa > top_mantissa)


def page_records(
    nope: npt.NDArray[np.float64], rope: npt.NDArray[np.uint16], form: Float8
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Data records [n, 576] and scale records [n, 8] of NoPE elements [n, 448] and RoPE bits [n, 64]."""
    tiles = nope.reshape(-1, TILES, TILE)
    exponent = page_scale_exponent(np.abs(tiles).max(axis=2, initial=0.0), form)
    data = np.zeros((tiles.shape[0], DATA_BYTES), np.uint8)
    data[:, :NOPE] = form.encode(np.ldexp(tiles, -exponent[:, :, None])).reshape(-1, NOPE)
    data[:, NOPE:] = np.ascontiguousarray(rope).view(np.uint8).reshape(-1, 2 * ROPE)
    scales = np.zeros((tiles.shape[0], SCALE_BYTES), np.uint8)
    scales[:, :TILES] = (exponent + SCALE_BIAS).astype(np.uint8)
    return data, scales


def page_row(
    data: npt.NDArray[np.uint8], scales: npt.NDArray[np.uint8], form: Float8
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.uint16]]:
    """NoPE elements [n, 448] and RoPE bits [n, 64] of data records [n, 576] and scale records [n, 8]."""
    values = form.decode(data[:, :NOPE]).reshape(-1, TILES, TILE)
    exponent = scales[:, :TILES].astype(np.int64) - SCALE_BIAS
    nope = np.ldexp(values, exponent[:, :, None]).reshape(-1, NOPE)
    return nope, np.ascontiguousarray(data[:, NOPE:]).view(np.uint16).reshape(-1, ROPE)
