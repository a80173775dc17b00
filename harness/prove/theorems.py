"""Theorems: statements about the row space with every size free, not only those of real configurations."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from kvproof.harness.prove.subject import SIZES, Subject
from kvproof.models.index import IndexValue
from kvproof.models.row_space import CLASS_NAMES, DENSE_RATIO, ENTRY_ORDER, RowSpace

THEOREMS = (
    "window/window",
    "window/compress",
    "compress/compress",
    "arena apart",
    "in own part",
    "in view",
    "ring positions",
    "no more rows",
    "least height",
    "physical slots",
    "boundary independence",
    "planes numbered alike",
)
"""Statements that are proved for every size."""

BY_HAND: Mapping[str, str] = {
    "least height": "that R positions do not fit into R - 1 folds (the pigeonhole principle)",
}
"""The single step of a theorem that no solver checks."""

OUT_OF_REACH: Mapping[str, tuple[str, str]] = {
    "layer independence": (
        "layers are given as a list of ratios by id; its length is not a number that a proof can leave free",
        "count_layer_lists",
    ),
    "default plane": ("as layer independence: it builds a layout from such a list", "count_layer_lists"),
    "least height, the pigeonhole": ("a counting argument over R positions, not arithmetic", "count_heights"),
}
"""What is UNKNOWN for every size, why, and the function of small_scopes that covers it up to a size."""


def theorem_subject(ratios: Sequence[int]) -> Subject:
    """Every layout with exactly these classes: layers, strides, ring, arena, alignment and capacity are free."""
    names = [CLASS_NAMES[ratio] for ratio in ratios]
    layers = {ratio: f"layers {CLASS_NAMES[ratio]}" for ratio in ratios}
    strides = {ratio: f"block rows {CLASS_NAMES[ratio]}" for ratio in ratios if ratio != DENSE_RATIO}
    shape = (*layers.values(), *strides.values(), "ring", "arena", "align")

    def build(sizes: Mapping[str, IndexValue]) -> RowSpace:
        blocks, slots, plane_rows, positions = (sizes[name] for name in SIZES)
        return RowSpace(
            {ratio: sizes[name] for ratio, name in layers.items()},
            {ratio: sizes[name] for ratio, name in strides.items()},
            blocks,
            slots,
            sizes["ring"],
            plane_rows,
            sizes["arena"],
            slot_positions=positions,
            slot_align_rows=sizes["align"],
        )

    return Subject(
        name=f"every size: {', '.join(names)}",
        system="row-space",
        sizes=(*shape, *SIZES),
        build=build,
        describe={"system": "theorem", "ratios": list(ratios)},
        # Without a compressed class there is no compressed row to speak of.
        statements=tuple(name for name in THEOREMS if strides or not name.endswith("compress")),
        samples=tuple(_samples(layers, strides)),
    )


def theorem_subjects() -> list[Subject]:
    """One subject for each set of classes that a layout may have, the largest first."""
    return [
        theorem_subject(ratios)
        for count in range(len(ENTRY_ORDER), 0, -1)
        for ratios in itertools.combinations(ENTRY_ORDER, count)
    ]


def _samples(layers: Mapping[int, str], strides: Mapping[int, str]) -> list[dict[str, Any]]:
    """Small shapes, at which a case of a statement or of its refutation is looked for first."""
    samples: list[dict[str, Any]] = []
    for count, stride, ring, arena, align in ((2, 2, 3, 1, 2), (1, 1, 1, 0, 1), (3, 1, 4, 2, 1), (2, 3, 7, 5, 4)):
        shape = dict.fromkeys(layers.values(), count) | dict.fromkeys(strides.values(), stride)
        samples.append({**shape, "ring": ring, "arena": arena, "align": align})
    return samples
