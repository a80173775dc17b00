"""Compress and write plans, on the host: a few vector operations over a forward's tokens, whatever the batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kvproof.kernels.state_update.spec import pooled
from kvproof.models.errors import LayoutError
from kvproof.models.index import as_index, cdiv

if TYPE_CHECKING:
    import torch

Plan = npt.NDArray[np.int32]


@dataclass(frozen=True)
class CompressPlan:
    """The plans of one class.

    Attributes:
        compress_plan: [>= num_compress, 4] (row, sequence, position, positions from the ring); padding is -1.
        write_plan: [>= num_write, 4] (row, sequence, position, unused); padding is -1.
        num_compress, num_write: rows that are not padding.
        cu_compress: [bs + 1] first compress row of each sequence, and the end of the last.
    """

    compress_plan: Plan
    write_plan: Plan
    num_compress: int
    num_write: int
    cu_compress: Plan


@dataclass(frozen=True)
class _Tokens:
    """New tokens of a forward, as columns."""

    row: Plan
    sequence: Plan
    position: npt.NDArray[np.int64]
    place: npt.NDArray[np.int64]
    context: npt.NDArray[np.int64]
    sequences: int


def make_compress_plans(
    extend_lens: npt.ArrayLike,
    context_lens: npt.ArrayLike,
    ratios: Iterable[tuple[int, bool]],
    *,
    plan_buffers: Mapping[int, Mapping[str, Plan]] | None = None,
    graph_bs: int | None = None,
    max_q_len: int | None = None,
    draft_tokens: int = 0,
) -> dict[int, CompressPlan]:
    """The plans of each class for one forward.

    Args:
        extend_lens: [bs] new tokens of each sequence.
        context_lens: [bs] length of each sequence after them.
        ratios: (compress ratio, whether entries overlap) of each class.
        plan_buffers: by ratio the arrays "compress" and "write" ([rows, 4] int32) to fill; new ones if None.
        graph_bs, max_q_len: for a captured forward: plans are cut to the rows that ``graph_bs`` sequences of
            ``max_q_len`` tokens need, which no batch changes.
        draft_tokens: new tokens that may be taken back: so many earlier positions are written as well.

    Returns:
        By ratio the plans, views of the buffers. Without ``graph_bs`` the compress plan has no padding, and the
        write plan is the whole buffer.

    Raises:
        LayoutError: lengths that do not fit together, or a buffer with too few rows.
    """
    tokens = _tokens(extend_lens, context_lens)
    draft_tokens = as_index("draft_tokens", draft_tokens, at_least=0)
    plans: dict[int, CompressPlan] = {}
    for ratio, overlap in ratios:
        ratio = as_index("ratio", ratio, at_least=1)  # noqa: PLW2901
        compress, write = _rows(tokens, ratio, overlap, draft_tokens)
        lengths = _fixed_lengths(graph_bs, max_q_len, ratio, pooled(ratio, overlap) + draft_tokens) or (
            len(compress),
            len(write),
        )
        buffers = (plan_buffers or {}).get(ratio)
        if buffers is None:
            buffers = {
                "compress": np.empty((lengths[0], 4), np.int32),
                "write": np.empty((lengths[1], 4), np.int32),
            }
        elif graph_bs is None:
            lengths = (lengths[0], len(buffers["write"]))
        counts = np.bincount(compress[:, 1], minlength=tokens.sequences)
        plans[ratio] = CompressPlan(
            _fill(f"plan_buffers[{ratio}]['compress']", buffers["compress"], compress, lengths[0]),
            _fill(f"plan_buffers[{ratio}]['write']", buffers["write"], write, lengths[1]),
            len(compress),
            len(write),
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        )
    return plans


def _tokens(extend_lens: npt.ArrayLike, context_lens: npt.ArrayLike) -> _Tokens:
    extend, context = np.asarray(extend_lens, np.int64), np.asarray(context_lens, np.int64)
    if extend.ndim != 1 or extend.shape != context.shape:
        raise LayoutError(f"extend_lens {extend.shape} and context_lens {context.shape} must have one shape [bs]")
    bad = np.flatnonzero((extend < 0) | (extend > context))
    if bad.size:
        b = int(bad[0])
        raise LayoutError(f"extend_lens[{b}] is {extend[b]}; allowed: 0 to context_lens[{b}] ({context[b]})")
    sequence = np.repeat(np.arange(extend.size), extend)
    row = np.arange(sequence.size)
    place = row - (np.cumsum(extend) - extend)[sequence]
    return _Tokens(
        row.astype(np.int32),
        sequence.astype(np.int32),
        (context - extend)[sequence] + place,
        place,
        context[sequence],
        extend.size,
    )


def _rows(tokens: _Tokens, ratio: int, overlap: bool, draft_tokens: int) -> tuple[Plan, Plan]:
    width = pooled(ratio, overlap)
    from_ring = np.maximum(width - 1 - tokens.place, 0)
    rows = np.stack([tokens.row, tokens.sequence, tokens.position, from_ring], axis=1).astype(np.int32)
    completes = (tokens.position + 1) % ratio == 0
    kept = tokens.position >= tokens.context - width - draft_tokens
    return rows[completes], rows[kept]


def _fixed_lengths(
    graph_bs: int | None, max_q_len: int | None, ratio: int, most_kept: int
) -> tuple[int, int] | None:
    """Rows of the plans of a captured forward: what its largest batch needs."""
    if graph_bs is None:
        return None
    if max_q_len is None:
        raise LayoutError("max_q_len must be given with graph_bs")
    sequences = as_index("graph_bs", graph_bs, at_least=0)
    queries = as_index("max_q_len", max_q_len, at_least=0)
    # Of consecutive tokens at most every ratio-th completes a group.
    return sequences * cdiv(queries, ratio), sequences * min(queries, most_kept)


def _fill(name: str, buffer: Plan, rows: Plan, length: int) -> Plan:
    if buffer.ndim != 2 or buffer.shape[1] != 4 or buffer.dtype != np.int32:
        raise LayoutError(f"{name} must be int32 [rows, 4], got {buffer.dtype} {list(buffer.shape)}")
    if not len(rows) <= length <= len(buffer):
        raise LayoutError(
            f"{name} has {len(buffer)} rows, of which {length} are used; this forward needs {len(rows)}"
        )
    buffer[: len(rows)] = rows
    # A row that an earlier, larger batch left would be taken for one of this.
    buffer[len(rows) : length] = -1
    return buffer[:length]


def fill_plans(
    extend_lens: torch.Tensor,
    context_lens: torch.Tensor,
    compress_plan: torch.Tensor,
    write_plan: torch.Tensor,
    ratio: int,
    overlap: bool,
    draft_tokens: int,
) -> None:
    """:func:`make_compress_plans` of one class, with tensors on any device as arguments. In place."""
    import torch  # noqa: PLC0415

    tokens = _tokens(extend_lens.cpu().numpy(), context_lens.cpu().numpy())
    for name, plan, rows in zip(
        ("compress_plan", "write_plan"),
        (compress_plan, write_plan),
        _rows(tokens, ratio, overlap, draft_tokens),
        strict=True,
    ):
        filled = _fill(name, np.empty(tuple(plan.shape), np.int32), rows, plan.shape[0])
        plan.copy_(torch.from_numpy(filled))
