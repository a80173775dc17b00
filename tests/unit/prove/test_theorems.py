"""Theorems for every size, and the exhaustive counts beside them."""

from __future__ import annotations

import pytest

from kvproof.harness.prove import small_scopes, theorems
from kvproof.harness.prove.discharge import Solvers
from kvproof.harness.prove.small_scopes import Scope, count_heights, count_layer_lists, count_row_spaces, fits
from kvproof.harness.prove.statement_proof import prove_statement
from kvproof.harness.prove.theorems import OUT_OF_REACH, THEOREMS, theorem_subject, theorem_subjects
from kvproof.harness.solve.backends import backend
from kvproof.models.row_space import DENSE_RATIO, HCA_RATIO
from kvproof.models.row_space.ring import entry_rows_for
from kvproof.properties.statement import all_statements


@pytest.mark.smt
@pytest.mark.parametrize("subject", theorem_subjects(), ids=lambda subject: subject.name)
def test_two_solvers_prove_every_theorem(subject: theorems.Subject) -> None:
    solvers = Solvers([backend("z3"), backend("cvc5")])
    statements = all_statements("row-space")
    for name in subject.statements or ():
        proof = prove_statement(subject, statements[name], solvers)
        assert not proof.problems, (name, proof.problems)
        assert {step.kind for step in proof.steps} >= {"twin"}


@pytest.mark.smt
def test_a_third_solver_of_another_kind_agrees_where_it_applies() -> None:
    subject = theorem_subject([HCA_RATIO])
    solvers = Solvers([backend("z3"), backend("isl")])
    for name in ("in own part", "ring positions", "physical slots"):
        assert not prove_statement(subject, all_statements("row-space")[name], solvers).problems, name


def test_every_set_of_classes_has_its_theorems() -> None:
    subjects = theorem_subjects()
    assert len(subjects) == 7
    assert all(set(subject.statements or ()) <= set(THEOREMS) for subject in subjects)
    (dense,) = (s for s in subjects if s.describe["ratios"] == [DENSE_RATIO])
    assert set(THEOREMS) - set(dense.statements or ()) == {"window/compress", "compress/compress"}


def test_what_no_theorem_reaches_is_counted_instead() -> None:
    for _, counter in OUT_OF_REACH.values():
        assert callable(getattr(small_scopes, counter))


def test_every_small_row_space_keeps_its_addresses_apart() -> None:
    counted = count_row_spaces(Scope(strides=(1, 2), ring=4, arena=(0, 1)))
    assert counted.faults == ()
    assert (counted.layouts, counted.addresses) == (21_424, 272_016)


def test_every_short_list_of_layers_is_addressed_by_id() -> None:
    counted = count_layer_lists()
    assert counted.faults == ()
    assert counted.layouts == 5_456


def test_a_search_finds_no_lower_height() -> None:
    counted = count_heights()
    assert counted.faults == ()
    assert counted.layouts == 96


def test_the_search_would_find_a_lower_height() -> None:
    assert fits(2, 2, 3, entry_rows_for(2, 2, 3))
    assert not fits(2, 2, 3, entry_rows_for(2, 2, 3) - 1)
    assert fits(1, 4, 3, 3)
    assert not fits(1, 4, 3, 2)


def test_counting_would_find_addresses_that_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    from kvproof.models.row_space.ring import WindowParams

    monkeypatch.setattr(WindowParams, "ring_offset", lambda _self, ring_pos: ring_pos * 0)
    assert count_row_spaces(Scope(layers=1, strides=(2,), ring=2, arena=(0,), align=(1,), gap=(0,))).faults
