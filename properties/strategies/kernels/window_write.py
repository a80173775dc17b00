"""Cases of the window write."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st

from kvproof.models.contract import Access, Arguments, contiguous
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.models.row_space import ABSENT_RATIO, CLASS_NAMES
from kvproof.properties.statement import Needs
from kvproof.properties.strategies.batches import batches, writes_per_batch
from kvproof.properties.strategies.buffers import poisoned_rows, row_types
from kvproof.properties.strategies.cases import Case, KernelProperty, register_property
from kvproof.properties.strategies.geometry import geometries, geometry_json, real_geometries


@st.composite
def cases(draw: st.DrawFn, subject: ModelConfig | None) -> Case:
    """A batch written into one layer of a small plane."""
    geometry = draw(geometries(min_slots=1) if subject is None else real_geometries(subject, min_slots=1))
    layer = draw(st.sampled_from([i for i, r in enumerate(geometry.ratios) if r != ABSENT_RATIO]))
    batch = draw(batches(geometry))
    kind = draw(row_types())
    seed = draw(st.integers(0, 2**16))
    base = geometry.layer_base_row(layer)
    wide = draw(st.sampled_from(["int32", "int64"]))
    per_batch = draw(writes_per_batch(batch.longest, geometry.ring_slots))
    return Case(
        values={
            "kv": draw(poisoned_rows(kind, batch.tokens, 2 * seed)),
            "positions": contiguous(wide, batch.positions),
            "cu_seqlens_q": contiguous("int32", batch.cu_seqlens),
            "state_slot_per_seq": contiguous("int32", batch.slots),
            "pool": draw(
                poisoned_rows(kind, base + geometry.layer_view_rows(layer), 2 * seed + 1, first_row=base)
            ),
            "window": geometry.window_params(geometry.ratios[layer]),
            "write_per_batch": per_batch,
        },
        poison={"kv": 2 * seed, "pool": 2 * seed + 1},
        events=batch.events | {CLASS_NAMES[geometry.ratios[layer]]},
        layout={"geometry": geometry_json(geometry), "layer": layer},
    )


def explain(a: Arguments, _access: Access, at: Mapping[str, int]) -> str:
    """Which token, of which sequence, a row is for."""
    b, t = at["b"], at["t"]
    return (
        f"token {t} (sequence {b}, slot {int(a.state_slot_per_seq[b])}, position {int(a.positions[t])}, "
        f"ring position {int(a.positions[t]) % a.window.ring_slots})"
    )


register_property(
    KernelProperty(
        kernel="window_write",
        words="the last tokens of each sequence are in their window rows, and nothing else of any tensor changed",
        cases=cases,
        needs=Needs(
            cases=100,
            events={
                "several sequences": 20,
                "ragged": 10,
                "second lap": 20,
                "verify step": 10,
                "chunk longer than the ring": 2,
                "empty sequence": 5,
                "padding slot": 2,
                "stale slot": 2,
                "negative position": 2,
                "stale padding": 5,
            },
        ),
        explain=explain,
    )
)
