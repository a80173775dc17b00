"""Contract of the window gather, one plane."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kvproof.kernels.window_gather.spec import cell_position, cell_row
from kvproof.models.contract import Access, Arguments, Clause, Contract, Index, Order, Scalar, Tensor, Tolerance
from kvproof.models.index import INT32_MAX, Condition, IndexValue, within

ROW_TYPES = ("bf16", "fp16", "fp32", "uint8")
REQUEST = Index("b", stop=lambda a: a.B)
CELL = Index("s", stop=lambda a, _b: a.draft_window)


def row_of(a: Arguments, b: IndexValue, s: IndexValue) -> IndexValue:
    """Pool row of a cell; -1 if it is zeros."""
    pos = cell_position(a.anchor_pos[b], s, a.draft_window)
    return cell_row(a.window, a.state_slot_per_seq[b], pos, a.rows)


def gathered(pool: npt.NDArray[Any], rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Rows of the pool, zeros for -1."""
    found = np.zeros((rows.size, pool.shape[1]), pool.dtype)
    found[rows >= 0] = pool[rows[rows >= 0]]
    return found


def _is_read(a: Arguments, b: IndexValue, s: IndexValue) -> Condition:
    return row_of(a, b, s) >= 0


def reads(pool: str) -> Access:
    """The pool rows that a launch may read; every other row may hold anything, and must not be touched."""
    return Access(pool, "read", (REQUEST, CELL), _is_read, lambda a, b, s: (row_of(a, b, s),), "the windows' rows")


SLOTS = Tensor("state_slot_per_seq", "int32", ("B",), "physical slot of each request")
ANCHORS = Tensor("anchor_pos", ("int32", "int64"), ("n_anchors",), "last position of each request's window")
SCALARS = (
    Scalar("draft_window", "positions of a window"),
    Scalar("window", "window scalars of the layer's class", kind="WindowParams"),
)
REQUIRES = (
    Clause("lengths", "every request has an anchor", lambda a: a.n_anchors >= a.B),
    Clause("width", "out has draft_window cells a request", lambda a: a.n_window == a.draft_window),
    Clause(
        "within the ring",
        "0 <= draft_window <= ring_slots: older positions are overwritten",
        lambda a: within(a.draft_window, 0, a.window.ring_slots + 1),
    ),
    Clause(
        "window sizes",
        "every window scalar fits 32 bits",
        lambda a: (
            (a.window.slot_rows <= INT32_MAX)
            & (a.window.ring_slots <= INT32_MAX)
            & (a.window.ring_stride <= INT32_MAX)
            & (a.window.run_rows <= INT32_MAX)
            & within(a.window.ring_start, -INT32_MAX, INT32_MAX + 1)
        ),
    ),
)
TOLERATES = (
    Tolerance("before the first", "a position before the request's first: zeros, whatever the row holds"),
    Tolerance("padding slot", "a negative slot: zeros"),
    Tolerance("stale slot", "a slot outside the plane: zeros where its rows are outside the pool"),
    Tolerance("negative anchor", "a request without a position: zeros"),
)
ORDERING = (Order("after", "swa_write", "which writes the rows"),)

CONTRACT = Contract(
    name="dspark_paged_window_gather",
    summary="Copies the last draft_window positions of each request to a dense tensor.",
    arguments=(
        Tensor("pool", ROW_TYPES, ("rows", "D"), "the plane from the layer's base row on", strides="rows"),
        SLOTS,
        ANCHORS,
        Tensor("out", ROW_TYPES, ("B", "n_window", "D"), "windows, oldest position first", role="out"),
        *SCALARS,
    ),
    requires=REQUIRES,
    tolerates=TOLERATES,
    accesses=(
        Access(
            "out",
            "must",
            (REQUEST, CELL),
            when=lambda _a, _b, _s: True,
            cell=lambda _a, b, s: (b, s),
            words="every cell: the row of its position, or zeros",
            value=lambda a, b, s: gathered(a.pool, row_of(a, b, s)),
        ),
        reads("pool"),
    ),
    ordering=ORDERING,
    source="ROCm/ATOM, atom/model_ops/v4_kernels: ABI of dspark_paged_window_gather",
)
