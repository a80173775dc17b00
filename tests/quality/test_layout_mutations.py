"""Single-point mutations of the specification: each is refuted by a named statement, or changes no address."""

from __future__ import annotations

import pytest

from kvproof.harness.mutate.equivalence import prove_equivalent
from kvproof.harness.mutate.layout_mutations import FAULTS, MORE_FAULTS
from kvproof.harness.mutate.layouts import mutant_layouts
from kvproof.harness.mutate.measure import counterexample_fails, prove_mutant
from kvproof.properties.statement import all_statements
from kvproof.reports.verdict import Status

pytestmark = pytest.mark.smt

MUTATIONS = {**FAULTS, **MORE_FAULTS}
CONFIG = "v4-pro-mtp1"  # all three classes, one of them with a single layer, an odd ring, an arena

REFUTED_BY = {
    "ring modulus": "ring positions",
    "run height": "window/window",
    "entry order": "window/window",
    "no anchor": "in own part",
    "wrong end": "physical slots",
    "run by stride": "in own part",
    "no remainder": "ring positions",
    "remainder by ring": "in own part",
    "run one row short": "window/window",
    "slot one row short": "in own part",
    "ring start one high": "in own part",
    "no arena": "arena apart",
    "no origin": "planes numbered alike",
    "origin added": "planes numbered alike",
    "entry offset stuck": "window/window",
    "entry one row short": "in own part",
    "entry one layer short": "in own part",
    "entry one row long": "no more rows",
    "last position missed": "in own part",
    "whole runs": "no more rows",
    "envelope one row short": "compress/compress",
    "envelope offset stuck": "compress/compress",
    "envelope order": "compress/compress",
    "classes swapped in the entry": "window/window",
    "block by slot": "compress/compress",
    "one more row of a block": "only addresses",
    "group off by one": "physical slots",
    "lowest group first": "physical slots",
    "rounded down": "arena apart",
    "not rounded": "arena apart",
    "rounded twice": "arena apart",
    "blocks rounded down": "default plane",
    "plane one envelope short": "window/compress",
    "base one layer on": "in own part",
    "base without envelope offset": "in own part",
    "arena one row long": "arena apart",
    "field ring at the slot's start": "field window",
    "field slot in plane rows": "field window",
    "numbering dropped": "physical slots",
    "arena dropped": "boundary independence",
    "layer by id": "layer independence",
    "class order reversed": "layer independence",
    "drafts forgotten": "window ring under verify",
    "state ring without drafts": "state ring under verify",
    "arena rounded down": "state fields",
    "fields unaligned": "state fields",
    "odd slots": "slot alignment",
    "rounding up adds one": "default plane",
}

# Mutations that another configuration's sizes hide, or that only it shows.
ELSEWHERE = {
    "rounded twice": "v4-flash",  # needs a slot that is even before it is rounded
    "state ring without drafts": "v4-flash-dspark",  # one draft fits the slack that the ring has
}

EQUIVALENT = ("dense anchor",)  # base rows and ring_start move together, so every address stays


def test_every_mutation_is_accounted_for() -> None:
    assert len(MUTATIONS) >= 25
    assert set(MUTATIONS) == {*REFUTED_BY, *EQUIVALENT}


@pytest.mark.parametrize("name", REFUTED_BY)
def test_a_named_statement_refutes_it_with_a_case_that_replays(name: str) -> None:
    config = ELSEWHERE.get(name, CONFIG)
    statement = {**all_statements("row-space"), **all_statements("pool")}[REFUTED_BY[name]]
    with mutant_layouts(MUTATIONS[name]) as mutant:
        proof = prove_mutant(mutant, statement, config)
        assert proof.problems, f"{statement.name} does not refute {name}"
        assert proof.problems[0].status is Status.FAIL
        assert not [problem.reason for problem in proof.problems if "defect" in problem.reason]
        assert counterexample_fails(mutant, statement, config, proof)


@pytest.mark.parametrize("name", EQUIVALENT)
def test_a_surviving_mutation_changes_no_address(name: str) -> None:
    with mutant_layouts(MUTATIONS[name]) as mutant:
        proof = prove_equivalent(mutant, CONFIG)
    assert not proof.problems, proof.problems


@pytest.mark.parametrize("name", ["ring start one high", "group off by one"])
def test_equivalence_is_refused_where_addresses_differ(name: str) -> None:
    with mutant_layouts(MUTATIONS[name]) as mutant:
        proof = prove_equivalent(mutant, CONFIG)
    assert proof.problems[0].status is Status.FAIL
