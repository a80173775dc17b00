"""What split attention gives: softmax over the listed rows and a sink, in float64, and how far off it may be."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kvproof.models.contract import Approximate
from kvproof.models.floats import from_bf16
from kvproof.models.index import INT32_MAX, Condition, IndexValue, within
from kvproof.models.scratch import CHUNKS, GROUP, HEAD_DIM, ScratchPlan, dims

WRITTEN = ("part", "pstat", "srdy", "xo", "xos", "crdy")
"""Regions that the three stages write; the rest of the buffer belongs to other kernels."""

Floats = npt.NDArray[np.float64]


def plan_of(family: str, tp: int, topk: IndexValue, tokens: IndexValue, chunk: int) -> ScratchPlan:
    """The plan of a launch; ``chunk`` 0 is the plan's own choice.

    Raises:
        LayoutError: what the plan refuses.
    """
    return ScratchPlan(dims(family, tp, topk), tokens, chunk or None)


def known_plan(family: str, tp: int, topk: int, tokens: int, chunk: int) -> Condition:
    """Whether there is such a plan."""
    try:
        plan_of(family, tp, topk, tokens, chunk)
    except ValueError:
        return False
    return chunk in (0, *CHUNKS) and 0 <= topk <= INT32_MAX


def listed_keys(start: IndexValue, end: IndexValue, keys: IndexValue) -> IndexValue:
    """Keys of a token's slice that count: no more than the plan has chunks for."""
    return min(max(end - start, 0), keys)


def attend(q: Floats, rows: Floats, sink: Floats, scale: float) -> tuple[Floats, Floats]:
    """(output [H, 512], sum of weight times magnitude [H, 512]) of one token.

    Args:
        q: [H, 512].
        rows: [n, 512], key and value at once.
        sink: [H] logits that take weight and give nothing; -inf for none.
        scale: factor of the scores.
    """
    if not rows.shape[0]:
        return np.zeros_like(q), np.zeros_like(q)
    scores = q @ rows.T * scale
    top = np.maximum(scores.max(axis=1), sink)
    weights = np.exp(scores - top[:, None])
    weights /= (weights.sum(axis=1) + np.exp(sink - top))[:, None]
    return weights @ rows, weights @ np.abs(rows)


def allowed_error(exact: Floats, spread: Floats, score_size: Floats) -> Floats:
    """How far a decoded output may be from the exact one.

    - An e4m3 number is within 1/16 of what it stands for, or, next to zero, within half a step of 2^-9 of the
      group's scale, which is below 2/448 of the group's largest magnitude; twice that where a rounding error
      moves the scale by one.
    - Partials and probabilities are bf16: within 2^-8 each of sums that ``spread`` bounds, and once more for the
      order of additions.
    - Scores are sums of 512 fp32 products: their error, as a share of each weight, is ``score_size * 2^-15``.

    Args:
        exact: [H, 512].
        spread: sum of weight times magnitude, [H, 512].
        score_size: the largest sum of magnitudes of a score's products, [H].
    """
    groups = np.abs(exact).reshape(exact.shape[0], -1, GROUP).max(axis=2)
    step = np.repeat(groups, GROUP, axis=1) * 2.0**-9 * (4.0 / 448.0)
    rounding = spread * (3 * 2.0**-8 + 2 * score_size[:, None] * 2.0**-15)
    return np.abs(exact) / 16 + step + 1.1 * rounding + 2.0**-22


def outputs(
    q: npt.NDArray[Any],
    kv: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    indptr: npt.NDArray[Any],
    sink: npt.NDArray[Any],
    scale: float,
    keys: int,
    tokens: npt.NDArray[Any],
) -> Approximate:
    """Outputs [n, H * 512] of some tokens, and their bounds.

    Args:
        q: bf16 bits [T, H, 512].
        kv: bf16 bits [rows, 512].
        indices: rows to attend to; one outside ``kv`` is skipped.
        indptr: [T + 1] slices of ``indices``.
        sink: [H] fp32.
        scale: factor of the scores.
        keys: keys of a token at most.
        tokens: the tokens wanted.
    """
    exact, error = [], []
    for t in map(int, tokens):
        start = int(indptr[t])
        listed = indices[start : start + int(listed_keys(start, int(indptr[t + 1]), keys))]
        chosen = listed[within(listed, 0, kv.shape[0])]
        query, rows = from_bf16(q[t]), from_bf16(kv[chosen])
        one, spread = attend(query, rows, np.asarray(sink, np.float64), scale)
        sizes = (np.abs(query) @ np.abs(rows).T * scale).max(axis=1, initial=0.0)
        exact.append(one.reshape(-1))
        error.append(allowed_error(one, spread, sizes).reshape(-1))
    shape = (len(exact), q.shape[1] * HEAD_DIM)
    return Approximate(np.array(exact).reshape(shape), np.array(error).reshape(shape))
