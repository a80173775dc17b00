"""What a caller owes is checked on arguments that are too short for the question, too."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import find, settings

from kvproof.kernels.registry import all_kernels
from kvproof.models.contract import bind, broken_clauses, contiguous
from kvproof.properties.strategies.cases import Case, all_kernel_properties


@pytest.fixture(scope="module")
def case() -> Case:
    strategy = all_kernel_properties()["split_attention"].cases(None)
    return find(strategy, lambda _: True, settings=settings(max_examples=1, database=None, deadline=None))


def broken(values: dict[str, Any]) -> list[str]:
    contract = all_kernels()["split_attention"].contract
    return [clause.name for clause, _ in broken_clauses(contract, bind(contract, values))]


def test_slices_that_are_all_there_break_nothing(case: Case) -> None:
    assert broken(dict(case.values)) == []


def test_a_clause_that_reads_past_an_end_is_broken(case: Case) -> None:
    assert "lengths" in (names := broken({**case.values, "kv_indptr": contiguous("int32", [0])}))
    assert len(names) == 2, "the clause of each slice cannot be asked, and is broken as well"
