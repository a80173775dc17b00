"""The five classic layout faults: each is found by a named statement, by proof and by drawing, and shrunk."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import strategies as st

from kvproof.harness.mutate.layout_mutations import FAULTS
from kvproof.harness.mutate.layouts import mutant_layouts
from kvproof.harness.mutate.measure import counterexample_fails, draw_mutant, prove_mutant
from kvproof.properties.statement import all_statements
from kvproof.reports.verdict import Status

CONFIG = "v4-flash-mtp1"  # three dense layers, a ring longer than a stride, an arena

S = 27596  # rows of a slot there
ONE_SLOT = {"num_blocks": 0, "num_slots": 1, "plane_rows": S, "slot_positions": 1}
ONE_BLOCK = {"num_blocks": 1, "num_slots": 1, "plane_rows": 2 * S, "slot_positions": 3}


@dataclass(frozen=True)
class Expected:
    """What finds a fault, and the least case in which it does.

    Attributes:
        statement: the statement that fails.
        sizes, choices: least counterexample of the proof, on ``CONFIG``; integers that are 0 are left out.
        layout: the drawn layout's arguments, where they are not those of ``LEAST_LAYOUT``.
        values: its chosen values, likewise.
    """

    statement: str
    sizes: dict[str, int]
    choices: dict[str, Any]
    layout: dict[str, Any]
    values: dict[str, Any]


LEAST_LAYOUT = {"ratios": [0], "num_blocks": 0, "num_slots": 1, "ring_slots": 1, "block_size": 1, "arena_rows": 0}

EXPECTED = {
    "ring modulus": Expected(
        "window/window",
        ONE_SLOT,
        {"class a": 0, "class b": 0, "position b": 128},
        {"ring_slots": 2},
        {"class a": 0, "class b": 0, "position b": 1},
    ),
    "run height": Expected(
        "window/window",
        ONE_SLOT,
        {"class a": 128, "class b": 128, "position a": 2, "layer b": 19},
        {"ratios": [4, 4], "ring_slots": 2, "block_size": 4},
        {"class a": 4, "class b": 4, "layer a": 1, "position b": 1},
    ),
    "entry order": Expected(
        "window/window",
        ONE_SLOT,
        {"class a": 0, "class b": 128},
        {"ratios": [0, 4], "block_size": 4},
        {"class a": 0, "class b": 4},
    ),
    "no anchor": Expected(
        "in view",
        ONE_SLOT,
        {"kind": "window", "class": 4, "layer": 20, "position": 128},
        {"ratios": [4, 128], "block_size": 128},
        {"kind": "window", "class": 4},
    ),
    "wrong end": Expected(
        "window/compress",
        ONE_BLOCK,
        {"class a": 0, "class b": 128},
        {"ratios": [4], "num_blocks": 1, "block_size": 4},
        {"class a": 4, "class b": 4},
    ),
}


@st.composite
def small_layouts(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of layouts of up to three layers; every argument shrinks by itself."""
    ratios = draw(st.lists(st.sampled_from([0, 4, 128]), min_size=1, max_size=3))
    return {
        "ratios": ratios,
        "num_blocks": draw(st.integers(0, 2)),
        "num_slots": draw(st.integers(1, 2)),
        "ring_slots": draw(st.integers(1, 4)),
        "block_size": math.lcm(*(ratio for ratio in ratios if ratio)),
        "arena_rows": draw(st.integers(0, 2)),
    }


def notable(values: dict[str, Any]) -> dict[str, Any]:
    """Classes and kinds as they are; integers only if they are not 0."""
    return {k: v for k, v in values.items() if v != 0 or k.startswith("class")}


@pytest.mark.smt
@pytest.mark.parametrize("name", EXPECTED)
def test_the_prover_refutes_it_with_the_least_counterexample(name: str) -> None:
    expected = EXPECTED[name]
    statement = all_statements("row-space")[expected.statement]
    with mutant_layouts(FAULTS[name]) as mutant:
        proof = prove_mutant(mutant, statement, CONFIG)
        assert proof.problems[0].status is Status.FAIL
        assert not [p.reason for p in proof.problems if "defect" in p.reason]
        assert counterexample_fails(mutant, statement, CONFIG, proof)
        case = proof.findings[0].case
    assert (case["sizes"], notable(case["choices"])) == (expected.sizes, expected.choices)


@pytest.mark.fuzz
@pytest.mark.parametrize("name", EXPECTED)
def test_drawing_finds_it_and_shrinks_to_the_least_case(name: str) -> None:
    expected = EXPECTED[name]
    statement = all_statements("row-space")[expected.statement]
    with mutant_layouts(FAULTS[name]) as mutant:
        drawn = draw_mutant(mutant, statement, systems=small_layouts())
    assert drawn is not None
    assert (drawn.system, notable(drawn.values)) == ({**LEAST_LAYOUT, **expected.layout}, expected.values)
