"""What the plans hold, token by token in plain ints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from kvproof.kernels.state_update.spec import pooled

PlanRow = tuple[int, int, int, int]
PADDING: PlanRow = (-1, -1, -1, -1)


def new_tokens(extend_lens: Any, context_lens: Any) -> Iterator[tuple[int, int, int, int, int]]:
    """(row, sequence, position, place within this forward, length of the sequence after it) of each new token."""
    row = 0
    for sequence, (extend, context) in enumerate(zip(extend_lens, context_lens, strict=True)):
        for place in range(int(extend)):
            yield row, sequence, int(context) - int(extend) + place, place, int(context)
            row += 1


def compress_rows(extend_lens: Any, context_lens: Any, ratio: int, overlap: bool) -> list[PlanRow]:
    """A row for each new token that completes a group: (row, sequence, position, positions from the ring)."""
    width = pooled(ratio, overlap)
    return [
        (row, sequence, pos, width - min(place + 1, width))
        for row, sequence, pos, place, _ in new_tokens(extend_lens, context_lens)
        if (pos + 1) % ratio == 0
    ]


def write_rows(
    extend_lens: Any, context_lens: Any, ratio: int, overlap: bool, draft_tokens: int = 0
) -> list[PlanRow]:
    """A row for each new token that a later forward may pool from the ring.

    A sequence's next entry pools at most its last ``pooled`` positions; with drafts, up to ``draft_tokens`` of the
    new ones may be taken back, and the last positions are then those before them.
    """
    width = pooled(ratio, overlap)
    return [
        (row, sequence, pos, width - min(place + 1, width))
        for row, sequence, pos, place, context in new_tokens(extend_lens, context_lens)
        if pos >= max(0, context - width - draft_tokens)
    ]


def padded(rows: list[PlanRow], capacity: int) -> npt.NDArray[np.int32]:
    """The rows as [capacity, 4], padding behind them."""
    return np.array([*rows, *[PADDING] * (capacity - len(rows))], np.int32).reshape(capacity, 4)
