"""Cases of the window gathers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from kvproof.models.contract import Access, Arguments, TensorValue, contiguous
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.models.packed_row import FORMATS, PACKED_BYTES, ROPE, WIDTH
from kvproof.models.row_space import ABSENT_RATIO, CLASS_NAMES, UnifiedPoolGeometry
from kvproof.properties.statement import Needs
from kvproof.properties.strategies.buffers import RowType, poisoned_rows, row_types
from kvproof.properties.strategies.cases import (
    MANY_ROWS,
    SEVERAL_ROWS,
    Case,
    KernelProperty,
    poison,
    register_property,
    several_rows,
)
from kvproof.properties.strategies.draws import mostly, rarely, seldom_low, shapes_for
from kvproof.properties.strategies.floats import filled
from kvproof.properties.strategies.geometry import geometries, geometry_json, real_geometries
from kvproof.properties.strategies.kernels.fp8_unpack import packed_rows
from kvproof.properties.strategies.tokens import Tokens, stale_tail, tokens

EVENTS = {
    "several sequences": 20,
    "second lap": 20,
    "stale slot": 10,
    "before the first": 10,
    "window across the ring's end": 10,
    SEVERAL_ROWS: 6,
}
MOST_CELLS = 16
"""Cells of one request: a real window is 128, which costs an interpreter more than it shows. Under a real
configuration one request's ring is gathered whole now and then."""


@dataclass(frozen=True)
class Windows:
    """Windows of a few requests in one layer."""

    geometry: UnifiedPoolGeometry
    layer: int
    batch: Tokens
    draft_window: int
    values: Mapping[str, Any]
    events: frozenset[str]
    shaped_for: int

    @property
    def base(self) -> int:
        """Plane row where the layer's view starts."""
        return self.geometry.layer_base_row(self.layer)


@st.composite
def windows(draw: st.DrawFn, subject: ModelConfig | None) -> Windows:
    """One anchor a sequence: the last of the tokens that a batch has of it."""
    geometry = draw(geometries(min_slots=1) if subject is None else real_geometries(subject, min_slots=1))
    layer = draw(st.sampled_from([i for i, r in enumerate(geometry.ratios) if r != ABSENT_RATIO]))
    wide = draw(st.sampled_from(["int32", "int64"]))
    batch = draw(tokens(geometry, wide=wide == "int64", most_queries=1))
    ring = geometry.ring_slots
    shape = draw(shapes_for(*MANY_ROWS))
    whole = subject is not None and len(batch.slots) == 1 and draw(mostly())
    most = ring if whole else min(ring, MOST_CELLS)
    draft_window = most if draw(mostly()) else draw(seldom_low(0, most))
    anchors = [0] * len(batch.slots)
    for t, sequence in enumerate(batch.sequence):
        if batch.live(t):
            anchors[sequence] = batch.positions[t]
    window = geometry.window_params(geometry.ratios[layer])
    events = set(batch.events) | {CLASS_NAMES[geometry.ratios[layer]]}
    for anchor in anchors:
        low = anchor - draft_window + 1
        events |= {"before the first"} if low < 0 else set()
        across = low >= 0 and draft_window > 0 and low % ring > anchor % ring
        events |= {"window across the ring's end"} if across else set()
        events |= {"whole ring"} if draft_window == ring else set()
    return Windows(
        geometry,
        layer,
        batch,
        draft_window,
        {
            "state_slot_per_seq": contiguous("int32", batch.slots),
            "anchor_pos": contiguous(wide, stale_tail(draw, anchors)),
            "draft_window": draft_window,
            "window": window,
        },
        frozenset(events),
        shape,
    )


def dense(found: Windows, dtype: str, columns: int, seed: int) -> TensorValue:
    """The poisoned result of a gather."""
    shape = (len(found.batch.slots), found.draft_window, columns)
    return contiguous(dtype, poison(seed, dtype, shape[0] * shape[1] * shape[2]), shape)


@st.composite
def cases(draw: st.DrawFn, subject: ModelConfig | None) -> Case:
    """Windows gathered from one layer of a small plane, which holds NaN wherever no one reads."""
    found = draw(windows(subject))
    kind = draw(row_types())
    seed = draw(st.integers(0, 2**16))
    rows = found.base + found.geometry.layer_view_rows(found.layer)
    return Case(
        values={
            "pool": draw(poisoned_rows(kind, rows, 2 * seed, first_row=found.base)),
            "out": dense(found, kind.dtype, kind.columns, 2 * seed + 1),
            **found.values,
        },
        poison={"pool": 2 * seed, "out": 2 * seed + 1},
        events=found.events | several_rows(kind.nbytes, found.draft_window, found.shaped_for),
        shaped_for=found.shaped_for,
        layout={"geometry": geometry_json(found.geometry), "layer": found.layer},
    )


MOST_ROWS = 96
"""Rows of a packed view: a row is 640 bytes in two planes."""


@st.composite
def plane_cases(draw: st.DrawFn, subject: ModelConfig | None) -> Case:
    """Windows unpacked from the two planes of the first rows of a layer's view; the rest is cut off."""
    found = draw(windows(subject))
    seed = draw(st.integers(0, 2**16))
    variant = draw(st.sampled_from(sorted(FORMATS, reverse=True)))
    whole = found.geometry.layer_view_rows(found.layer)
    rows = min(whole, MOST_ROWS)
    pool = draw(poisoned_rows(RowType("uint8", PACKED_BYTES), rows, 4 * seed))
    seeds = {"pool": 4 * seed, "pool_rope": 4 * seed + 1, "out": 4 * seed + 2}
    if rows and draw(rarely()):
        pool = filled(pool, draw(packed_rows(rows, 4 * seed + 3, variant)))
        seeds = {name: s for name, s in seeds.items() if name != "pool"}
    return Case(
        values={
            "pool": pool,
            "pool_rope": draw(poisoned_rows(RowType("bf16", ROPE), rows, 4 * seed + 1)),
            "out": dense(found, "bf16", WIDTH, 4 * seed + 2),
            **found.values,
            "variant": variant,
        },
        poison=seeds,
        events=found.events | {variant} | several_rows(PACKED_BYTES, found.draft_window, found.shaped_for),
        shaped_for=found.shaped_for,
        layout={"geometry": geometry_json(found.geometry), "layer": found.layer},
    )


def explain(a: Arguments, _access: Access, at: Mapping[str, int]) -> str:
    """Which position of which request a cell is."""
    b, s = at["b"], at["s"]
    pos = int(a.anchor_pos[b]) - (a.draft_window - 1 - s)
    return f"cell {s} of request {b} (slot {int(a.state_slot_per_seq[b])}, position {pos})"


register_property(
    KernelProperty(
        kernel="window_gather",
        words="each cell is the row of its position, zeros where there is none, and nothing else changed",
        cases=cases,
        needs=Needs(cases=100, events=EVENTS),
        explain=explain,
    )
)
register_property(
    KernelProperty(
        kernel="window_gather_planes",
        words="each cell is the unpacked row of its position, zeros where there is none, and nothing else changed",
        cases=plane_cases,
        # A case costs an interpreter several times as much.
        needs=Needs(cases=40, events={event: count // 3 for event, count in EVENTS.items()} | {"fnuz": 5}),
        explain=explain,
    )
)
