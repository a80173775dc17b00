"""What the row scatter does: which tokens are written, and where."""

from __future__ import annotations

from typing import Any

from kvproof.models.index import Condition, IndexValue, within


def written(batch_id: IndexValue, dest_row: IndexValue, rows: IndexValue) -> Condition:
    """Whether a token is written: it is no padding, and its row is one of the pool's."""
    return (batch_id >= 0) & within(dest_row, 0, rows)


def scattered_rows(dest_rows: Any, batch_ids: Any, rows: int, tokens: int) -> dict[int, int]:
    """Pool row -> token, for every row that one launch writes; token by token, in plain ints."""
    return {
        int(dest_rows[t]): t for t in range(tokens) if int(batch_ids[t]) >= 0 and 0 <= int(dest_rows[t]) < rows
    }
