"""Statements about the cache schema and the scratch plans, case by case from the smallest on."""

from __future__ import annotations

import pytest

from kvproof.harness.check.choosers import enumerate_cases
from kvproof.models.deepseek_v4 import CONFIGS
from kvproof.models.schema import SchemaSystem
from kvproof.models.scratch import Dims, ScratchFamily
from kvproof.properties.statement import all_statements

SMALL = Dims(ScratchFamily("small", 64, 32, 32, 4, 3, True, 3, (1,)), 1)
"""Two head tiles, so that both sizes of chunk are chosen."""

SYSTEMS = {"schema": SchemaSystem(CONFIGS["v4-flash-mtp1"]), "scratch": SMALL}
NAMED = [(system, name) for system in SYSTEMS for name in all_statements(system)]

# On so few tokens the widest step takes small chunks, and its top-k is far below any served one.
SERVED_ONLY = {"scratch/offsets fit", "scratch/one buffer for every step"}


@pytest.mark.parametrize(("system", "name"), [pair for pair in NAMED if pair[1] not in SERVED_ONLY])
def test_it_holds_in_the_first_cases(system: str, name: str) -> None:
    found = enumerate_cases(all_statements(system)[name].body, SYSTEMS[system], limit=600)
    assert found.failure is None
    assert found.cases >= 1


@pytest.mark.parametrize(
    "name", ["page/writer and reader", "page/records apart", "tail/holds", "budget/headroom", "row space/block"]
)
def test_its_twin_fails_in_the_first_cases(name: str) -> None:
    found = enumerate_cases(all_statements("schema")[name].body, SYSTEMS["schema"], slip=1, limit=3000)
    assert found.failure is not None
