"""What fused compression gives, in float64, and how far a result may be from it.

A compressed entry e of a sequence covers positions e*ratio .. (e+1)*ratio - 1. It is written when the last of
them, ``pos``, is new; it pools K positions that end there: the group's own, and with overlap those of the group
before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kvproof.kernels.state_update.spec import as_floats, pooled
from kvproof.models.contract import Approximate
from kvproof.models.floats import BF16_UNIT, FP32_UNIT
from kvproof.models.index import Condition, IndexValue, maximum, minimum, select, within
from kvproof.models.packed_row import (
    FORMATS,
    NOPE,
    ROPE,
    SCALE_AT,
    SCALE_BIAS,
    TILE,
    TILES,
    USED_BYTES,
    WIDTH,
    Float8,
    pack_rows,
    scale_exponent,
    unpack_rows,
)

Values = npt.NDArray[np.float64]

EXP_ERROR = 2.0**-21
"""Relative error of ``exp`` on a device beside that of its argument."""


def clamp(value: IndexValue, count: IndexValue) -> IndexValue:
    """An index that can be looked up; what is found counts only where ``value`` was in range."""
    return maximum(minimum(value, count - 1), 0)


def complete(ragged: IndexValue, sequence: IndexValue, pos: IndexValue, window: IndexValue, a: Any) -> Condition:
    """Whether a plan row names rows, a sequence, a block column and an angle that are there."""
    k = pooled(a.ratio, a.overlap)
    entry = maximum(pos, 0) // a.ratio
    named = (pos >= 0) & within(ragged, 0, a.N) & within(sequence, 0, a.bs)
    from_input = within(window, 0, k) & (ragged - (k - 1 - window) >= 0)
    return named & from_input & (entry // a.block_rows < a.columns) & (entry * a.ratio < a.positions)


def destination(a: Any, sequence: IndexValue, pos: IndexValue) -> IndexValue:
    """Pool row of the entry that ``pos`` completes; -1 for a block that is none."""
    entry = maximum(pos, 0) // a.ratio
    block = a.block_tables[clamp(sequence, a.bs), clamp(entry // a.block_rows, a.columns)]
    row = block * a.envelope_rows + entry % a.block_rows
    return select(within(block, 0, a.blocks), row, -1)


@dataclass(frozen=True)
class Entries:
    """The entries of some plan rows, exactly, as far as fp32 arithmetic may be off before they are rounded.

    Attributes:
        exact: [n, 512] elements after norm and rotation.
        error: [n, 512] bound of what fp32 arithmetic adds.
    """

    exact: Values
    error: Values


def entries(a: Any, rows: npt.NDArray[np.int64]) -> Entries:
    """Pool, normalise and rotate the entries of some live plan rows.

    The bound. A weight's relative error is that of its score (one fp32 sum and two differences, each ``2^-23`` of
    the magnitudes), of ``exp`` and of rescaling once a tile; a pooled element is a quotient of two sums over K
    positions, so errors of weights multiply the sum of ``weight * |value|``. The norm adds the pooled elements'
    error in the mean square, and ``2^-23`` for each of 512 squares; rotation adds two products and a sum.
    """
    kv, scores, seen = _positions(a, rows)
    k = scores.shape[1]
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        shown = np.where(seen, scores, -np.inf)
        top = shown.max(axis=1, keepdims=True)
        weights = np.exp(shown - top)
        weights /= weights.sum(axis=1, keepdims=True)
        values = np.where(seen, kv, 0.0)
        row = (weights * values).sum(axis=1)
        spread = (weights * np.abs(values)).sum(axis=1)
        finite = np.where(np.isfinite(shown), np.abs(shown), 0.0).max(axis=1)
        relative = 8 * FP32_UNIT * (1 + finite) + (k + 4) * (EXP_ERROR + 2 * FP32_UNIT)
        pooled_error = np.expm1(2 * relative) * spread + np.abs(row) * 4 * FP32_UNIT
        return _finish(a, rows, row, pooled_error)


def _positions(a: Any, rows: npt.NDArray[np.int64]) -> tuple[Values, Values, npt.NDArray[np.bool_]]:
    """(kv, score, whether the position exists) [n, K, 512] of each pooled position."""
    k = pooled(a.ratio, a.overlap)
    ragged, sequence, pos, window = (a.compress_plan[rows, column][:, None] for column in range(4))
    place = np.arange(k)[None, :]
    at = pos - (k - 1) + place
    seen, new = at >= 0, place >= window
    # The group before has the first half of a row, the entry's own the second.
    half = np.where(place >= a.ratio, WIDTH, 0) if a.overlap else np.zeros_like(place)
    columns = half[:, :, None] + np.arange(WIDTH)
    source = clamp(ragged - (k - 1) + place, a.N)[:, :, None]
    kept = a.state_slot_mapping[sequence][:, :, None], (at % a.ring)[:, :, None], columns
    with np.errstate(invalid="ignore", over="ignore"):
        term = as_floats(a.ape)[(place % a.ratio)[:, :, None], columns]
        score = as_floats(a.score)[source, columns] + term
        kv = np.where(new[:, :, None], as_floats(a.kv)[source, columns], a.kv_state[kept])
        score = np.where(new[:, :, None], score, a.score_state[kept])
        wide = np.broadcast_to(seen[:, :, None], kv.shape)
        return kv.astype(np.float64), score.astype(np.float64), wide


def _finish(a: Any, rows: npt.NDArray[np.int64], row: Values, error: Values) -> Entries:
    weight = np.abs(a.rms_weight.astype(np.float64))
    size = np.sqrt((row * row).mean(axis=1, keepdims=True) + a.rms_eps)
    off = np.sqrt((error * error).mean(axis=1, keepdims=True)) / size + (WIDTH + 8) * FP32_UNIT
    off = np.where(off < 0.5, off / (1 - off), np.inf)
    normed = row / size * a.rms_weight
    normed_error = weight / size * (error + (np.abs(row) + error) * (off + 4 * FP32_UNIT))

    pos = a.compress_plan[rows, 2]
    angle = pos // a.ratio * a.ratio
    cos, sin = (as_floats(table)[angle].astype(np.float64) for table in (a.cos, a.sin))
    even, odd = normed[:, NOPE::2], normed[:, NOPE + 1 :: 2]
    even_error, odd_error = normed_error[:, NOPE::2], normed_error[:, NOPE + 1 :: 2]
    exact, bound = normed.copy(), normed_error.copy()
    exact[:, NOPE::2] = even * cos - odd * sin
    exact[:, NOPE + 1 :: 2] = odd * cos + even * sin
    for at, (x, y), (u, v) in (
        (NOPE, (even_error, odd_error), (even, odd)),
        (NOPE + 1, (odd_error, even_error), (odd, even)),
    ):
        size_of_sum = np.abs(u * cos) + np.abs(v * sin)
        bound[:, at::2] = np.abs(cos) * x + np.abs(sin) * y
        bound[:, at::2] += 4 * FP32_UNIT * (size_of_sum + bound[:, at::2])
    return Entries(exact, bound)


def bf16_rows(found: Entries, columns: slice = slice(0, WIDTH)) -> Approximate:
    """Entries rounded to bf16: half a step, ``2^-8`` of a value, on top."""
    exact, error = found.exact[:, columns], found.error[:, columns]
    return Approximate(exact, error + BF16_UNIT / 2 * (np.abs(exact) + error) + 2.0**-134)


def rope_rows(found: Entries) -> Approximate:
    """RoPE elements of packed entries."""
    return bf16_rows(found, slice(NOPE, NOPE + ROPE))


def packed_rows(found: Entries, variant: str) -> Approximate:
    """NoPE elements of packed entries: half an e4m3 step on top, of the value or of the tile's scale.

    A row must be well formed: each scale twice, one of those that elements within the bound lead to, and zeros
    behind.
    """
    form = FORMATS[variant]
    exact, error = found.exact[:, :NOPE], found.error[:, :NOPE]
    low, high = _scales(np.maximum(np.abs(exact) - error, 0.0), form), _scales(np.abs(exact) + error, form)
    least = np.repeat(np.ldexp(form.smallest / 2, high), TILE, axis=1)
    bound = error + np.maximum(2.0**-4 * (np.abs(exact) + error), least)

    def decode(cells: npt.NDArray[Any]) -> Values:
        scale = cells[:, SCALE_AT:USED_BYTES:2].astype(np.int64) - SCALE_BIAS
        sound = (cells[:, SCALE_AT:USED_BYTES:2] == cells[:, SCALE_AT + 1 : USED_BYTES : 2]).all(axis=1)
        sound &= ((scale >= low) & (scale <= high)).all(axis=1) & ~cells[:, USED_BYTES:].any(axis=1)
        return np.where(sound[:, None], unpack_rows(cells, form), np.nan)

    def encode(values: Values) -> npt.NDArray[np.uint8]:
        return pack_rows(values, form)

    return Approximate(exact, bound, decode, encode)


def _scales(magnitudes: Values, form: Float8) -> npt.NDArray[np.int64]:
    """Scale exponents [n, 7] of tiles with these magnitudes; what is not finite does not count."""
    tiles = magnitudes.reshape(-1, TILES, TILE)
    return scale_exponent(np.where(np.isfinite(tiles), tiles, 0.0).max(axis=2), form)
