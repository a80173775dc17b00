"""Row buffers of a case: poisoned storages, and views of them with guard rows and free row strides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from kvproof.models.contract import STORAGE_DTYPES, TensorValue
from kvproof.properties.strategies.cases import poison
from kvproof.properties.strategies.draws import mostly, rarely, seldom_first, seldom_low

GUARD_ROWS = 2
"""Rows of the storage before and after a plane: a stray write just outside is seen."""


@dataclass(frozen=True)
class RowType:
    """Element type and columns of a row."""

    dtype: str
    columns: int

    @property
    def nbytes(self) -> int:
        """Bytes of a row."""
        return self.columns * np.dtype(STORAGE_DTYPES[self.dtype]).itemsize


ROW_TYPES = (
    RowType("uint8", 1),
    RowType("bf16", 2),
    RowType("fp32", 3),
    RowType("fp16", 5),
    RowType("bf16", 8),
    RowType("uint8", 9),
)
"""Each is a kernel of its own to a compiler, so few; every type, and columns around powers of two."""


def row_types() -> st.SearchStrategy[RowType]:
    """A few columns of any type that a pool may have. Shrinks to one byte."""
    return seldom_first(ROW_TYPES)


@st.composite
def poisoned_rows(draw: st.DrawFn, kind: RowType, rows: int, seed: int, *, first_row: int = 0) -> TensorValue:
    """Rows ``first_row..`` of a poisoned matrix with guard rows around it, and maybe elements between rows.

    Args:
        kind: element type and columns.
        rows: rows of the whole matrix.
        seed: poison seed.
        first_row: the view starts here and runs to the matrix's end.
    """
    stride = kind.columns + (draw(seldom_low(0, 3)) if draw(mostly()) else 0)
    # A view need not start at an address that a vector load likes.
    shift = draw(seldom_low(0, 3)) if draw(rarely()) else 0
    storage = poison(seed, kind.dtype, (rows + 2 * GUARD_ROWS) * stride + shift)
    return TensorValue(
        kind.dtype,
        storage,
        (rows - first_row, kind.columns),
        (stride, 1),
        (GUARD_ROWS + first_row) * stride + shift,
    )
