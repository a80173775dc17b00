"""Contract of the decode index build."""

from __future__ import annotations

from typing import Any

from kvproof.kernels.index_spec import clamped, live_sequence, serves, window_count, window_index
from kvproof.models.contract import Access, Arguments, Clause, Contract, Index, Order, Scalar, Tensor, Tolerance
from kvproof.models.index import INT32_MAX, Condition, IndexValue, maximum, within
from kvproof.models.row_space import CSA_RATIO, DENSE_RATIO, HCA_RATIO

CLASSES = {DENSE_RATIO: "swa", CSA_RATIO: "csa", HCA_RATIO: "hca"}
"""Class -> name of its buffers."""


def served(a: Arguments, ratio: int) -> bool:
    """Whether this launch serves a class."""
    name = CLASSES[ratio]
    return serves(a.geometry, ratio, getattr(a, f"{name}_indptr"), getattr(a, f"{name}_indices"))


def _token(ratio: int) -> Index:
    return Index("t", stop=lambda a: a.T if served(a, ratio) else 0)


PLACE = Index("i", stop=lambda a, _t: a.win)


def live(a: Arguments, t: IndexValue) -> Condition:
    """Whether token ``t`` belongs to a sequence of the batch."""
    return live_sequence(a.batch_id_per_token[t], a.bs)


def slot_of(a: Arguments, t: IndexValue) -> IndexValue:
    """Slot of token ``t``'s sequence; of any sequence if it has none."""
    return a.state_slot_per_seq[clamped(a.batch_id_per_token[t], a.bs)]


def _slice(a: Arguments, ratio: int, t: IndexValue) -> tuple[IndexValue, IndexValue]:
    indptr: Any = getattr(a, f"{CLASSES[ratio]}_indptr")
    # A class that is off has no tokens here, so t holds none.
    return (t, t) if indptr is None else (indptr[t], indptr[t + 1])


def _cells(a: Arguments, ratio: int) -> IndexValue:
    """Cells of the class's index buffer."""
    name = CLASSES[ratio]
    return 0 if getattr(a, f"{name}_indices") is None else getattr(a, f"n_{name}")


def _window(ratio: int) -> Access:
    """The class's window part of every slice: its last cells, oldest position first."""
    name = CLASSES[ratio]

    def cell(a: Arguments, t: IndexValue, i: IndexValue) -> IndexValue:
        _, end = _slice(a, ratio, t)
        return end - window_count(a.positions[t], a.win) + i

    def when(a: Arguments, t: IndexValue, i: IndexValue) -> Condition:
        start, _ = _slice(a, ratio, t)
        inside = within(cell(a, t, i), maximum(start, 0), _cells(a, ratio))
        return live(a, t) & (i < window_count(a.positions[t], a.win)) & inside

    def value(a: Arguments, t: IndexValue, i: IndexValue) -> IndexValue:
        pos = a.positions[t]
        return window_index(a.geometry, ratio, slot_of(a, t), pos - window_count(pos, a.win) + 1 + i)

    return Access(
        f"{name}_indices",
        "must",
        (_token(ratio), PLACE),
        when=when,
        cell=lambda a, t, i: (cell(a, t, i),),
        words=f"the last min(pos + 1, win) cells of each live token's {name} slice",
        value=value,
    )


def _own_row(ratio: int) -> Access:
    return Access(
        f"dest_rows_{CLASSES[ratio]}",
        "must",
        (_token(ratio),),
        when=live,
        cell=lambda _a, t: (t,),
        words="each live token's own row",
        value=lambda a, t: window_index(a.geometry, ratio, slot_of(a, t), a.positions[t]),
    )


def _slices_disjoint(ratio: int) -> Clause:
    return Clause(
        f"{CLASSES[ratio]} order",
        "slices follow one another: indptr never falls",
        lambda a, t: _slice(a, ratio, t)[0] <= _slice(a, ratio, t)[1],
        over=(_token(ratio),),
    )


def _lengths(a: Arguments) -> Condition:
    holds = (a.n_batch >= a.T) & (a.n_positions >= a.T) & (a.bs >= 1)
    for ratio, name in CLASSES.items():
        if served(a, ratio):
            holds = holds & (getattr(a, f"n_{name}_indptr") >= a.T + 1) & (getattr(a, f"n_dest_{name}") >= a.T)
    return holds


def _buffers(name: str) -> tuple[Tensor, ...]:
    return (
        Tensor(
            f"{name}_indptr",
            "int32",
            (f"n_{name}_indptr",),
            f"slices of {name}_indices: first cell of each token's, and the end of the last",
            optional=True,
        ),
        Tensor(f"{name}_indices", "int32", (f"n_{name}",), "rows to attend to", role="inout", optional=True),
        Tensor(
            f"dest_rows_{name}", "int32", (f"n_dest_{name}",), "row of each token's own KV", "inout", optional=True
        ),
    )


REQUIRES = (
    Clause("lengths", "every token has an id, a position, slices and a destination", _lengths),
    Clause("window", "1 <= win <= ring_slots", lambda a: within(a.win, 1, a.geometry.ring_slots + 1)),
    Clause("plane size", "rows fit 32 bits", lambda a: a.geometry.plane_rows <= INT32_MAX),
)
TOLERATES = (
    Tolerance("padded token", "a batch id outside the batch: nothing is written for the token"),
    Tolerance("negative position", "a live token at a negative position: an empty window, and -1 as its own row"),
    Tolerance("stale slot", "a slot that the plane has not: -1 in every cell of the window"),
    Tolerance("short slice", "a slice shorter than the window: the newest positions that fit, none outside"),
    Tolerance("absent class", "a class without layers, or without buffers: untouched, whatever the buffers hold"),
    Tolerance("stale padding", "elements past the batch do not matter"),
)

CONTRACT = Contract(
    name="write_v4_paged_decode_indices",
    summary="Writes the window part of every decode token's slices, and the row that its own KV goes to.",
    arguments=(
        Tensor("state_slot_per_seq", "int32", ("bs",), "physical slot of each sequence"),
        Tensor("batch_id_per_token", "int32", ("n_batch",), "sequence of each token, -1 of a padded one"),
        Tensor("positions", ("int32", "int64"), ("n_positions",), "absolute position of each token"),
        *(tensor for name in CLASSES.values() for tensor in _buffers(name)),
        Scalar("T", "tokens, padded ones among them"),
        Scalar("win", "window in tokens"),
        Scalar("geometry", "the pool's row space", kind="UnifiedPoolGeometry"),
    ),
    requires=(*REQUIRES, *(_slices_disjoint(ratio) for ratio in CLASSES)),
    tolerates=TOLERATES,
    accesses=(*(_window(ratio) for ratio in CLASSES), *(_own_row(ratio) for ratio in CLASSES)),
    ordering=(
        Order("before", "sparse_attn_v4_paged_decode", "which reads the slices"),
        Order("before", "swa_scatter_rows", "which writes to the destination rows"),
    ),
    source="ROCm/ATOM, atom/model_ops/v4_kernels: ABI of write_v4_paged_decode_indices",
)
