"""Cases of the decode index build."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from kvproof.kernels.decode_indices.contract import CLASSES
from kvproof.models.contract import Access, Arguments, contiguous
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.models.row_space import CLASS_NAMES, DENSE_RATIO, UnifiedPoolGeometry
from kvproof.properties.statement import Needs
from kvproof.properties.strategies.cases import Case, KernelProperty, register_property
from kvproof.properties.strategies.draws import mostly, rarely, seldom_low
from kvproof.properties.strategies.geometry import geometries, geometry_json, real_geometries
from kvproof.properties.strategies.tokens import Tokens, cells, slices, stale_tail, tokens, vast


@st.composite
def cases(draw: st.DrawFn, subject: ModelConfig | None) -> Case:
    """A few tokens of a small plane, all classes that it has, or fewer."""
    drawn = draw(geometries(min_slots=1) if subject is None else real_geometries(subject, min_slots=1))
    geometry = draw(vast(drawn))
    wide = draw(st.sampled_from(["int32", "int64"]))
    batch = draw(tokens(geometry, wide=wide == "int64"))
    win = draw(seldom_low(1, geometry.ring_slots)) if draw(rarely()) else max(geometry.ring_slots - 1, 1)
    seed = draw(st.integers(0, 2**16))
    count = len(batch.sequence)
    values: dict[str, Any] = {
        "state_slot_per_seq": contiguous("int32", batch.slots),
        "batch_id_per_token": contiguous("int32", stale_tail(draw, batch.sequence)),
        "positions": contiguous(wide, stale_tail(draw, batch.positions)),
        "T": count,
        "win": win,
        "geometry": geometry,
    }
    seeds: dict[str, int] = {}
    events = set(batch.events) | ({"vast plane"} if geometry is not drawn else set())
    for number, (ratio, name) in enumerate(CLASSES.items()):
        present, found = draw(class_buffers(geometry, ratio, batch, win, 6 * seed + 2 * number))
        values |= {f"{name}_{key}" if key != "dest" else f"dest_rows_{name}": v for key, v in present.items()}
        events |= found
        if present["indices"] is not None:
            seeds |= {f"{name}_indices": 6 * seed + 2 * number, f"dest_rows_{name}": 6 * seed + 2 * number + 1}
    return Case(values, seeds, frozenset(events), {"geometry": geometry_json(geometry)})


@st.composite
def class_buffers(
    draw: st.DrawFn, geometry: UnifiedPoolGeometry, ratio: int, batch: Tokens, win: int, seed: int
) -> tuple[dict[str, Any], set[str]]:
    """One class's slices, index buffer and destinations, or none of them; and the events they show."""
    served = ratio in geometry.classes
    if not draw(mostly()):
        return {"indptr": None, "indices": None, "dest": None}, {"class switched off"} if served else set()
    count = len(batch.sequence)
    windows = [min(max(p + 1, 0), win) if batch.live(t) else 0 for t, p in enumerate(batch.positions)]
    heads = [0 if ratio == DENSE_RATIO else draw(seldom_low(0, 3)) for _ in windows]
    lengths = [w + h for w, h in zip(windows, heads, strict=True)]
    events = {"absent class"} if not served and count else set()
    if any(windows) and draw(rarely()):
        at = draw(st.sampled_from([t for t, w in enumerate(windows) if w]))
        lengths[at] = draw(st.integers(0, windows[at] - 1))
        events |= {"short slice"} if served else set()
    bounds = draw(slices(lengths))
    # A buffer that ends before the last slice does: nothing may be written past it.
    size = max(bounds[-1] - draw(seldom_low(0, 2)), 0) if draw(rarely()) else bounds[-1] + draw(seldom_low(0, 2))
    return {
        "indptr": contiguous("int32", stale_tail(draw, bounds)),
        "indices": draw(cells(size, seed)),
        "dest": draw(cells(count + draw(seldom_low(0, 1)), seed + 1)),
    }, events | {CLASS_NAMES[ratio]} if served else events


def explain(a: Arguments, access: Access, at: Mapping[str, int]) -> str:
    """Which token, at which position, a cell is for."""
    t = at["t"]
    who = f"token {t} (sequence {int(a.batch_id_per_token[t])}, position {int(a.positions[t])})"
    return f"own row of {who}" if access.buffer.startswith("dest") else f"window cell {at['i']} of {who}"


register_property(
    KernelProperty(
        kernel="decode_indices",
        words="each live token's window fills its slice's tail in order, -1 for a slot that the plane has not",
        cases=cases,
        needs=Needs(
            cases=100,
            events={
                "several sequences": 20,
                "several queries": 20,
                "padded token": 20,
                "second lap": 20,
                "stale slot": 10,
                "short slice": 10,
                "vast plane": 10,
                "class switched off": 10,
                "negative position": 1,
            },
        ),
        explain=explain,
    )
)
