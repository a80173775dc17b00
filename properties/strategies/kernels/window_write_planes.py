"""Cases of the window write in two planes."""

from __future__ import annotations

from hypothesis import strategies as st

from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.properties.statement import Needs
from kvproof.properties.strategies.buffers import poisoned_rows, row_types
from kvproof.properties.strategies.cases import (
    MANY_ROWS,
    SEVERAL_ROWS,
    Case,
    KernelProperty,
    register_property,
    several_rows,
)
from kvproof.properties.strategies.draws import shapes_for
from kvproof.properties.strategies.geometry import geometry_from_json
from kvproof.properties.strategies.kernels import window_write


@st.composite
def cases(draw: st.DrawFn, subject: ModelConfig | None) -> Case:
    """A case of the one-plane write, its rows in two planes of different row types."""
    one = draw(window_write.cases(subject))
    kind, rope = draw(row_types()), draw(row_types())
    seed = 4 * draw(st.integers(0, 2**16))
    geometry, layer = geometry_from_json(one.layout["geometry"]), one.layout["layer"]
    base = geometry.layer_base_row(layer)
    rows, tokens = base + geometry.layer_view_rows(layer), one.values["kv"].shape[0]
    shape = draw(shapes_for(*MANY_ROWS))
    kept = {name: value for name, value in one.values.items() if name not in {"kv", "pool"}}
    return Case(
        values={
            "k_packed": draw(poisoned_rows(kind, tokens, seed)),
            "k_rope": draw(poisoned_rows(rope, tokens, seed + 1)),
            "pool": draw(poisoned_rows(kind, rows, seed + 2, first_row=base)),
            "pool_rope": draw(poisoned_rows(rope, rows, seed + 3, first_row=base)),
            **kept,
        },
        poison={name: seed + n for n, name in enumerate(("k_packed", "k_rope", "pool", "pool_rope"))},
        events=one.events | several_rows(kind.nbytes, one.values["write_per_batch"], shape),
        layout=one.layout,
        shaped_for=shape,
    )


register_property(
    KernelProperty(
        kernel="window_write_planes",
        words="the last tokens of each sequence are in their window rows of both planes, and nothing else changed",
        cases=cases,
        needs=Needs(
            cases=100,
            events={
                "several sequences": 20,
                "ragged": 10,
                "second lap": 20,
                "verify step": 10,
                "chunk longer than the ring": 3,
                "empty sequence": 5,
                "padding slot": 3,
                "stale slot": 3,
                "negative position": 3,
                SEVERAL_ROWS: 5,
            },
        ),
        explain=window_write.explain,
    )
)
