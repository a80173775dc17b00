"""Cases of the CSA top-k translate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from kvproof.kernels.csa_translate.spec import complete
from kvproof.kernels.shapes import LARGE_BATCH, MEDIUM_BATCH, entry_tile, shaped_for
from kvproof.models.contract import Access, Arguments, TensorValue, contiguous
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.models.index import INT32_MAX
from kvproof.models.row_space import CSA_RATIO
from kvproof.properties.statement import Needs
from kvproof.properties.strategies.batches import STALE
from kvproof.properties.strategies.cases import Case, KernelProperty, poison, register_property
from kvproof.properties.strategies.draws import rarely, seldom_low, shapes_for
from kvproof.properties.strategies.geometry import geometries, geometry_json, real_geometries
from kvproof.properties.strategies.tables import block_tables
from kvproof.properties.strategies.tokens import cells, slices, stale_tail, tokens

WIDE_OR_FEW = [False] * 3 + [True]
"""Whether a token has many entries. Such cases are slow, and most faults show in small ones."""

WIDE, WIDEST = (129, 40, 259), (512, 513, 259)
"""Entries of a token where they are many: past the boundaries between programs of 128 entries, and of 512."""


@dataclass(frozen=True)
class Selection:
    """What an indexer left of one token, and the length of its window, of its slice and of its slice's head."""

    entries: list[int]
    skip: int
    length: int
    head: int
    events: frozenset[str]


@st.composite
def cases(draw: st.DrawFn, subject: ModelConfig | None) -> Case:
    """A few tokens with their selected entries. The pool's blocks are of any geometry with CSA layers."""
    source = geometries(min_slots=1) if subject is None else real_geometries(subject, min_slots=1)
    geometry = draw(source.filter(lambda g: CSA_RATIO in g.classes))
    wide = draw(st.sampled_from(["int32", "int64"]))
    columns = draw(seldom_low(1, 4))
    capacity = geometry.block_size // CSA_RATIO
    drawn = draw(seldom_low(1, 5))
    shape = draw(shapes_for(MEDIUM_BATCH, LARGE_BATCH))
    topk = draw(st.sampled_from(WIDEST if shape else WIDE)) if draw(st.sampled_from(WIDE_OR_FEW)) else drawn
    seed = draw(st.integers(0, 2**16))
    # 0 is a prefill launch, whose windows' lengths are given.
    window_size = draw(seldom_low(0, geometry.ring_slots))

    def per_token(draw_: st.DrawFn, pos: int, live: bool) -> Selection:
        found = draw_(selections(pos, live, drawn, columns * capacity, window_size))
        return lengthened(found, topk - drawn, pos, columns * capacity, seed) if topk > drawn else found

    batch = draw(tokens(geometry, wide=wide == "int64", per_token=per_token))
    chosen: list[Selection] = batch.extras
    count = len(chosen)
    table, table_events = draw(block_tables(geometry, len(batch.slots), columns))
    bounds = draw(slices([selection.length for selection in chosen]))
    before = draw(seldom_low(0, 3)) if draw(rarely()) else 0
    bounds = [bound - before for bound in bounds]
    size = bounds[-1] + (-draw(seldom_low(0, 2)) if draw(rarely()) else draw(seldom_low(0, 2)))
    entries = [selection.entries for selection in chosen]
    topk_local = draw(rows_apart(entries, topk, seed + 1))
    skips = [selection.skip for selection in chosen]
    values: dict[str, Any] = {
        "topk_local": topk_local,
        "block_tables": table,
        "positions": contiguous(wide, stale_tail(draw, batch.positions)),
        "kv_indptr_csa": contiguous("int32", stale_tail(draw, bounds)),
        "batch_id_per_token": contiguous("int32", stale_tail(draw, batch.sequence)),
        "skip_prefix_len_per_token": None if window_size else contiguous("int32", stale_tail(draw, skips)),
        "kv_indices_csa": draw(cells(max(size, 0), seed)),
        "envelope_rows": geometry.envelope_rows,
        "csa_block_capacity": capacity,
        "window_size": window_size,
    }
    events = batch.events | table_events | {"decode" if window_size else "given windows"}
    events = events.union(*(selection.events for selection in chosen))
    with shaped_for(shape):
        tile, _ = entry_tile(topk, count)
    heads = [selection.head for t, selection in enumerate(chosen) if batch.live(t)]
    several = {
        "several programs a token": topk > tile,
        "512 entries a program": max(heads, default=0) >= 512 == tile,
    }
    several["slice before the buffer"] = any(bounds[t] < 0 < bounds[t + 1] for t in range(count))
    several["strided entries"] = topk_local.strides[0] > topk and count > 1
    events |= {name for name, happened in several.items() if happened}
    layout = {"geometry": geometry_json(geometry)}
    return Case(values, {"kv_indices_csa": seed}, frozenset(events), layout, shape)


@st.composite
def rows_apart(draw: st.DrawFn, rows: list[list[int]], columns: int, seed: int) -> TensorValue:
    """Rows of an int32 matrix, maybe further apart than their columns: the front of a longer buffer's rows."""
    stride = columns + (draw(seldom_low(0, 3)) if draw(rarely()) else 0)
    value = TensorValue("int32", poison(seed, "int32", len(rows) * stride), (len(rows), columns), (stride, 1))
    value.array[...] = np.array(rows, np.int32).reshape(len(rows), columns)
    return value


@st.composite
def selections(draw: st.DrawFn, pos: int, live: bool, topk: int, entries: int, window_size: int) -> Selection:
    """``topk`` entries of one token (complete ones, the open group's, garbage), and how long its slice is."""
    closed = min(max(pos + 1, 0) // CSA_RATIO, entries)
    found: list[int] = []
    events: set[str] = set()
    for _ in range(topk):
        if closed and not draw(rarely()):
            entry = draw(st.integers(0, closed - 1))
        else:
            # The group that the token is in, the one past the table, and anything.
            entry = draw(st.one_of(st.just(closed), st.just(entries), st.integers(-3, -1), STALE))
        found.append(min(entry, INT32_MAX))
        known = bool(complete(found[-1], pos)) and found[-1] < entries
        if live:
            events.add("second block" if known and found[-1] * 2 >= entries else "entry")
            events |= set() if known else {"garbage entry"}
    skip, head = draw(seldom_low(0, 4)), draw(seldom_low(0, topk))
    tail = min(max(pos + 1, 0), window_size) if window_size else skip
    length = tail + head if live else 0
    if live and draw(rarely()):
        length = draw(st.sampled_from([max(tail - 1, 0), tail + topk + 2]))
        events.add("wrong slice")
    events |= {"partial head"} if live and 0 < length - tail < topk else set()
    return Selection(found, skip, length, length - tail, frozenset(events))


def lengthened(few: Selection, more: int, pos: int, entries: int, seed: int) -> Selection:
    """The selection with ``more`` entries before its own, of the same kinds. Most fill the slice's head too."""
    closed = min(max(pos + 1, 0) // CSA_RATIO, entries)
    drawn = poison(seed + pos % 251, "int32", more).astype(np.int64)
    # One in eight is garbage, as the few are: anything, or the open group's.
    found = np.where(drawn % 8 == 0, drawn, np.where(drawn % 8 == 1, closed, (drawn >> 3) % max(closed, 1)))
    head = few.length and (more if seed % 4 else more // 2)
    long = [min(int(entry), INT32_MAX) for entry in found]
    return Selection([*long, *few.entries], few.skip, few.length + head, few.head + head, few.events)


def explain(a: Arguments, _access: Access, at: Mapping[str, int]) -> str:
    """Which entry of which token a cell is for."""
    t, k = at["t"], at["k"]
    return (
        f"entry {int(a.topk_local[t, k])}, place {k} of token {t} (sequence {int(a.batch_id_per_token[t])}, "
        f"position {int(a.positions[t])})"
    )


register_property(
    KernelProperty(
        kernel="csa_translate",
        words="each selected entry that the token may see is its row in its block, and -1 where there is none",
        cases=cases,
        needs=Needs(
            cases=100,
            events={
                "several sequences": 20,
                "padded token": 20,
                "garbage entry": 20,
                "partial head": 20,
                "wrong slice": 20,
                "second block": 5,
                "given windows": 5,
                "no block": 3,
                "descending blocks": 10,
                "strided table": 10,
                "several programs a token": 5,
                "512 entries a program": 1,
                "strided entries": 5,
                "slice before the buffer": 1,
            },
        ),
        explain=explain,
    )
)
