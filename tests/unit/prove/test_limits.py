"""Derived limits: known values, and witnesses that fail."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvproof.harness.prove.discharge import Solvers
from kvproof.harness.prove.limits import Limit, config_limits
from kvproof.harness.solve.backends import backend
from kvproof.models.deepseek_v4 import CONFIGS, ModelConfig
from kvproof.models.index import INT32_MAX
from kvproof.reports.verdict import Status

pytestmark = pytest.mark.smt


def limits(config: ModelConfig) -> dict[str, Limit]:
    solvers = Solvers([backend("z3"), backend("cvc5")])
    return {limit.name: limit for limit in config_limits(config, solvers)}


@pytest.fixture(scope="module")
def dspark() -> dict[str, Limit]:
    return limits(CONFIGS["v4-pro-dspark"])


def test_every_limit_is_proved_and_its_next_value_refuted(dspark: dict[str, Limit]) -> None:
    assert {limit.verdict.status for limit in dspark.values()} == {Status.PASS}
    assert all(limit.witness for limit in dspark.values())


def test_the_window_ring_is_window_plus_drafts(dspark: dict[str, Limit]) -> None:
    limit = dspark["ring positions for a window of 128 with 7 drafts"]
    assert (limit.value, limit.beyond, limit.has) == (135, 134, 135)
    assert limit.witness == "start = 127, query = 0, back = 127, later write = 134"


def test_state_rings_are_the_pooled_positions_and_all_but_one_draft(dspark: dict[str, Limit]) -> None:
    assert dspark["csa_main: state ring for ratio 4, 8 pooled, 7 drafts"].value == 8 + 7 - 1
    assert dspark["hca_main: state ring for ratio 128, 128 pooled, 7 drafts"].value == 128 + 7 - 1
    assert dspark["csa_main: drafts that the write plan of 8 rows survives"].value == 7


def test_plane_limits_lie_where_the_last_row_meets_the_width(dspark: dict[str, Limit]) -> None:
    slot = CONFIGS["v4-pro-dspark"].geometry(0, 0).slot_rows
    for name, elements in (
        ("plane rows for int32 indices", 1),
        ("nope: plane rows for int32 byte offsets", 512),
        ("rope: plane rows for int32 element offsets", 64),
    ):
        value = dspark[name].value
        assert value is not None
        # Every row of a plane of just so many rows has an offset. A view starts at its base row and the rows
        # above the topmost whole slot are none's, so a little more does too, but not two slots.
        assert (INT32_MAX + 1) // elements <= value < (INT32_MAX + 1) // elements + 2 * slot


def test_a_ring_that_is_too_short_fails_with_the_schedule() -> None:
    # Eight drafts are more than the write plan of CSA's eight pooled positions survives.
    found = limits(replace(CONFIGS["v4-flash-dspark"], name="eight drafts", draft_tokens=8))
    limit = found["csa_main: drafts that the write plan of 8 rows survives"]
    assert (limit.value, limit.has, limit.verdict.status) == (7, 8, Status.FAIL)
    assert "start = 0, accepted = 1, read = 0" in limit.verdict.reason
