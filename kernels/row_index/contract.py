"""Contract of the row formulas, as the probe launcher runs them."""

from __future__ import annotations

from kvproof.kernels.row_index.spec import compress_row_or_sentinel, row_offset, window_row_or_sentinel
from kvproof.models.contract import Access, Clause, Contract, Index, Scalar, Tensor, Tolerance
from kvproof.models.index import INT32_MAX, within

EACH = (Index("i", stop=lambda a: a.n),)


def _always(_a: object, _i: object) -> bool:
    return True


CONTRACT = Contract(
    name="row_index",
    summary="Window row, compressed row and element offset of each element.",
    arguments=(
        Tensor("slots", "int32", ("n",), "physical slot of a window row"),
        Tensor("positions", ("int32", "int64"), ("n",), "absolute position of a window row"),
        Tensor("blocks", "int32", ("n",), "physical block of a compressed row"),
        Tensor("block_rows", "int32", ("n",), "row within its block"),
        Tensor("plane_rows", "int32", ("n",), "row of a view"),
        Tensor("window_rows", "int64", ("n",), "window row relative to the layer's base", role="out"),
        Tensor("compress_rows", "int64", ("n",), "compressed row relative to the layer's base", role="out"),
        Tensor("offsets", "int64", ("n",), "element offset of plane_rows", role="out"),
        Scalar("window", "window scalars of the layer's class", kind="WindowParams"),
        Scalar("envelope_rows", "rows of an envelope"),
        Scalar("row_stride", "elements between two rows"),
    ),
    requires=(
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
        Clause("envelope size", "0 <= envelope_rows < 2**31", lambda a: within(a.envelope_rows, 0, INT32_MAX + 1)),
        Clause("row size", "1 <= row_stride < 2**31", lambda a: within(a.row_stride, 1, INT32_MAX + 1)),
    ),
    tolerates=(
        Tolerance("sentinel", "a negative slot, position, block or row gives row -1"),
        Tolerance("stale id", "any other 32-bit value gives the row that the formula says, without wrapping"),
    ),
    accesses=(
        Access(
            "window_rows",
            "must",
            EACH,
            when=_always,
            cell=lambda _a, i: (i,),
            words="every element",
            value=lambda a, i: window_row_or_sentinel(a.window, a.slots[i], a.positions[i]),
        ),
        Access(
            "compress_rows",
            "must",
            EACH,
            when=_always,
            cell=lambda _a, i: (i,),
            words="every element",
            value=lambda a, i: compress_row_or_sentinel(a.envelope_rows, a.blocks[i], a.block_rows[i]),
        ),
        Access(
            "offsets",
            "must",
            EACH,
            when=_always,
            cell=lambda _a, i: (i,),
            words="every element",
            value=lambda a, i: row_offset(a.plane_rows[i], a.row_stride),
        ),
    ),
    source="docs of the row space: models/row_space/ring.py and rows.py",
)
