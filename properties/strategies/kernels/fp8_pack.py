"""Cases of packing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from kvproof.models.contract import Access, Arguments
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.models.floats import from_bf16
from kvproof.models.packed_row import FORMATS, NOPE, PACKED_BYTES, ROPE, TILE, TILES, WIDTH, Float8, scale_exponent
from kvproof.properties.statement import Needs
from kvproof.properties.strategies.cases import Case, KernelProperty, register_property
from kvproof.properties.strategies.draws import now_and_then, seldom_low
from kvproof.properties.strategies.floats import bf16_rows, filled, guarded

PROGRAM = 8
"""Rows of a program."""


@st.composite
def cases(draw: st.DrawFn, _subject: ModelConfig | None) -> Case:
    """A few rows of special and ordinary elements, in either variant. A configuration changes nothing."""
    rows = draw(seldom_low(0, 3)) + (PROGRAM if draw(now_and_then()) else 0)
    seed = draw(st.integers(0, 2**16))
    variant = draw(st.sampled_from(sorted(FORMATS, reverse=True)))
    bits = draw(bf16_rows(rows, WIDTH, 8 * seed, special=True))
    src = filled(draw(guarded("bf16", (rows, WIDTH), 8 * seed + 4)), bits)
    return Case(
        values={
            "src": src,
            "packed": draw(guarded("uint8", (rows, PACKED_BYTES), 8 * seed + 5)),
            "rope": draw(guarded("bf16", (rows, ROPE), 8 * seed + 6)),
            "variant": variant,
        },
        poison={"packed": 8 * seed + 5, "rope": 8 * seed + 6},
        events=frozenset({variant} | _shown(bits, FORMATS[variant])),
    )


def _shown(bits: npt.NDArray[np.uint16], form: Float8) -> set[str]:
    tiles = from_bf16(bits[:, :NOPE]).reshape(-1, TILES, TILE)
    size = np.abs(np.where(np.isfinite(tiles), tiles, 0.0))
    scaled = np.ldexp(size, -scale_exponent(size.max(axis=2, initial=0.0), form)[:, :, None])
    places = form.values[: form.largest_code + 1]
    ties = (places[1:] + places[:-1]) / 2
    found = {
        "NaN": bool(np.isnan(tiles).any()),
        "infinity": bool(np.isinf(tiles).any()),
        "zero tile": bool((size.max(axis=2, initial=0.0) == 0).any()),
        "tie": bool(np.isin(scaled, ties).any()),
        "subnormal code": bool(((scaled > form.smallest / 2) & (scaled < form.values[8])).any()),
        "largest value": bool((scaled == form.max).any()),
        "several rows": bits.shape[0] > 1,
        "several programs": bits.shape[0] > PROGRAM,
    }
    return {name for name, happened in found.items() if happened}


def explain(_a: Arguments, _access: Access, at: Mapping[str, int]) -> str:
    """Which row it is."""
    return f"row {at['i']} of src, packed"


register_property(
    KernelProperty(
        kernel="fp8_pack",
        words="each row is packed to the byte as the format says, and nothing else of any tensor changed",
        cases=cases,
        needs=Needs(
            cases=60,
            events={
                "ocp": 8,
                "fnuz": 8,
                "NaN": 5,
                "infinity": 3,
                "zero tile": 5,
                "tie": 5,
                "subnormal code": 10,
                "largest value": 2,
                "several rows": 10,
                "several programs": 3,
            },
        ),
        explain=explain,
    )
)
