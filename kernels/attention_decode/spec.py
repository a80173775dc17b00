"""What sparse paged attention gives, in float64, and how far a result may be from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kvproof.models.contract import Approximate
from kvproof.models.floats import BF16_UNIT, FP32_UNIT, from_bf16
from kvproof.models.index import Condition, IndexValue, maximum, minimum, within
from kvproof.models.packed_row import FORMATS, WIDTH, unpack_rows

Values = npt.NDArray[np.float64]

LEAST_TILE = 32
"""Keys of the smallest tile that a kernel folds at once."""

FOLD_ERROR = 2.0**-21
"""Relative error of folding one tile: an ``exp2`` instruction (2^-22), two products and a sum."""

SMALLEST_NORMAL = 2.0**-126
"""An ``exp2`` or a product of fp32 below this may come out as 0."""


@dataclass(frozen=True)
class Source:
    """Rows that a slice lists: one plane of bf16 rows, or a packed one and its RoPE plane.

    Attributes:
        rows: bf16 bit patterns [rows, 512], or packed bytes [rows, 512].
        rope: bf16 bit patterns [rows, 64] of packed rows, else None.
        variant: e4m3 variant of packed rows.
        indices, indptr: entries and the bounds of each token's slice.
    """

    rows: npt.NDArray[Any]
    rope: npt.NDArray[Any] | None
    variant: str
    indices: npt.NDArray[Any]
    indptr: npt.NDArray[Any]

    def values(self, token: int) -> Values:
        """The rows [n, 512] that a token's slice lists, in its order; an entry that is no row lists none."""
        first, stop = slice_of(self.indptr, token, self.indices.shape[0])
        listed = self.indices[int(first) : max(int(first), int(stop))]
        row = listed[within(listed, 0, self.rows.shape[0])]
        if self.rope is None:
            return from_bf16(self.rows[row])
        nope = unpack_rows(self.rows[row], FORMATS[self.variant])
        return np.concatenate([nope, from_bf16(self.rope[row])], axis=1)


def slice_of(indptr: Any, token: IndexValue, total: IndexValue) -> tuple[IndexValue, IndexValue]:
    """(first, stop) of a token's slice, cut to the index buffer."""
    return minimum(maximum(indptr[token], 0), total), minimum(indptr[token + 1], total)


def is_live(indices: Any, place: IndexValue, rows: IndexValue) -> Condition:
    """Whether the entry at ``place`` lists a row."""
    return within(indices[place], 0, rows)


def attention(
    q: npt.NDArray[Any], tokens: Sequence[int], sources: Sequence[Source], sink: npt.NDArray[Any], scale: float
) -> Approximate:
    """Softmax attention of some tokens over the rows that their slices list, plus one sink logit a head.

    Key and value are the row itself. A token without rows gives exactly 0. A NaN in a listed row gives NaN; of
    an infinity, or sums past fp32, nothing is promised.

    The bound. A result is the quotient of two sums over keys, and a relative error of every weight carries over
    to it. A weight's relative error is that of

    - its score: 512 products summed in fp32, each addition off by at most ``2^-23`` of the sum of magnitudes
      (matrix units may truncate), then scaled, ``2^-22``; times ln 2 as an exponent; twice, since the
      denominator has it too;
    - the differences of exponents, whose magnitudes add up to at most four times the largest score's;
    - folding: :data:`FOLD_ERROR` for each tile of :data:`LEAST_TILE` keys, and for the sink and the quotient;
    - its rounding to bf16, ``2^-8``;
    - the two sums over n keys, ``2^-23`` an addition.

    Errors of weights multiply the sum of ``weight * |value|``. The result's rounding to bf16 adds ``2^-8`` of it.

    Args:
        q: bf16 bit patterns [T, H, 512].
        tokens: the tokens wanted.
        sources: where keys come from; a token's slices follow one another in this order.
        sink: [H] logits; -inf for none.
        scale: softmax scale.

    Returns:
        [len(tokens), H, 512] results and bounds.
    """
    heads = q.shape[1]
    exact = np.zeros((len(tokens), heads, WIDTH))
    error = np.zeros_like(exact)
    logits = sink.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        for at, token in enumerate(tokens):
            keys = np.concatenate([source.values(int(token)) for source in sources])
            if keys.shape[0]:
                exact[at], error[at] = _one(from_bf16(q[token]), keys, logits, scale)
    return Approximate(exact, error)


def _one(query: Values, keys: Values, sink: Values, scale: float) -> tuple[Values, Values]:
    """(result, bound) [H, 512] of one token with at least one key."""
    scores = query @ keys.T * scale
    magnitude = np.abs(query) @ np.abs(keys).T * abs(scale)
    top = np.maximum(scores.max(axis=1), sink)[:, None]
    weights = np.exp(scores - top)
    total = weights.sum(axis=1, keepdims=True) + np.exp(sink[:, None] - top)
    weights = weights / total
    result = weights @ keys
    spread = weights @ np.abs(keys)

    n = keys.shape[0]
    score_error = magnitude.max(axis=1) * (WIDTH * FP32_UNIT + 2 * FP32_UNIT)
    largest = np.maximum(np.abs(scores).max(axis=1), np.where(np.isfinite(sink), np.abs(sink), 0.0))
    folds = math.ceil(n / LEAST_TILE) + 4
    relative = (
        2 * score_error + 4 * FP32_UNIT * largest + 2 * folds * FOLD_ERROR + 2 * n * FP32_UNIT + BF16_UNIT / 2
    )
    weight_error = np.expm1(relative)[:, None] * spread + n * SMALLEST_NORMAL * np.abs(keys).max(axis=0)
    bound = weight_error + BF16_UNIT / 2 * (np.abs(result) + weight_error) + SMALLEST_NORMAL

    nan_query = np.asarray(np.isnan(query).any(axis=1))
    nan_key = bool(np.isnan(keys).any())
    unclear = np.isinf(query).any(axis=1) | np.isinf(keys).any() | (magnitude.max(axis=1) > 2.0**126)
    unclear &= ~(nan_query | nan_key)
    result[nan_query | nan_key] = np.nan
    return result, np.where(unclear[:, None], np.inf, bound)
