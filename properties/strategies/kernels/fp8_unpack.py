"""Cases of unpacking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from kvproof.models.contract import Access, Arguments
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.models.floats import from_bf16
from kvproof.models.packed_row import FORMATS, NOPE, PACKED_BYTES, ROPE, SCALE_AT, USED_BYTES, WIDTH, pack_rows
from kvproof.properties.statement import Needs
from kvproof.properties.strategies.cases import Case, KernelProperty, poison, register_property
from kvproof.properties.strategies.draws import mostly, now_and_then, rarely, seldom_low
from kvproof.properties.strategies.floats import bf16_rows, filled, guarded


@st.composite
def packed_rows(draw: st.DrawFn, rows: int, seed: int, variant: str) -> npt.NDArray[Any]:
    """Packed rows [rows, 512]: packed from drawn elements, or any bytes; some scales special."""
    bits = draw(bf16_rows(rows, NOPE, seed, special=True))
    packed = pack_rows(from_bf16(bits), FORMATS[variant])
    for row in range(rows):
        if draw(rarely()):
            packed[row] = poison(seed + row, "uint8", PACKED_BYTES)
        if draw(mostly()):
            tile, byte = draw(st.integers(0, 6)), draw(st.sampled_from([114, 0, 255, 1, 254]))
            packed[row, SCALE_AT + 2 * tile] = byte
    return packed


PROGRAM = 8
"""Rows of a program."""


@st.composite
def cases(draw: st.DrawFn, _subject: ModelConfig | None) -> Case:
    """A few rows, well packed and not, in either variant. A configuration changes nothing."""
    rows = draw(seldom_low(0, 3)) + (PROGRAM if draw(now_and_then()) else 0)
    seed = draw(st.integers(0, 2**16))
    variant = draw(st.sampled_from(sorted(FORMATS, reverse=True)))
    packed = draw(packed_rows(rows, 8 * seed, variant))
    scales = packed[:, SCALE_AT:USED_BYTES:2]
    values = FORMATS[variant].decode(packed[:, :NOPE])
    found = {
        "NaN": bool(np.isnan(values).any()),
        "scale 0": bool((scales == 0).any()),
        "scale NaN": bool((scales == 255).any()),
        "scale bytes differ": bool((scales != packed[:, SCALE_AT + 1 : USED_BYTES : 2]).any()),
        "several rows": rows > 1,
        "several programs": rows > PROGRAM,
    }
    return Case(
        values={
            "packed": filled(draw(guarded("uint8", (rows, PACKED_BYTES), 8 * seed + 4)), packed),
            "rope": draw(guarded("bf16", (rows, ROPE), 8 * seed + 5)),
            "out": draw(guarded("bf16", (rows, WIDTH), 8 * seed + 6)),
            "variant": variant,
        },
        poison={"rope": 8 * seed + 5, "out": 8 * seed + 6},
        events=frozenset({variant} | {name for name, happened in found.items() if happened}),
    )


def explain(_a: Arguments, _access: Access, at: Mapping[str, int]) -> str:
    """Which row it is."""
    return f"row {at['i']} of packed, unpacked"


register_property(
    KernelProperty(
        kernel="fp8_unpack",
        words="each row holds exactly the values of its bytes, and nothing else of any tensor changed",
        cases=cases,
        needs=Needs(
            cases=60,
            events={
                "ocp": 8,
                "fnuz": 8,
                "NaN": 5,
                "scale 0": 3,
                "scale NaN": 3,
                "scale bytes differ": 10,
                "several rows": 10,
                "several programs": 3,
            },
        ),
        explain=explain,
    )
)
