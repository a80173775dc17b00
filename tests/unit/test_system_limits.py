"""Limits of the cache schema and the scratch plans: proved values, and the witnesses of the next ones."""

from __future__ import annotations

import json

import pytest

from kvproof.harness.cli.main import main
from kvproof.harness.prove.discharge import Solvers
from kvproof.harness.prove.limits import Limit
from kvproof.harness.prove.system_limits import schema_limits, scratch_limits
from kvproof.harness.solve.backends import SOLVERS, backend
from kvproof.models.deepseek_v4 import CONFIGS
from kvproof.models.scratch import ScratchPlan, scratch_systems

pytestmark = pytest.mark.smt


def solvers() -> Solvers:
    return Solvers([backend(name) for name in SOLVERS])


def by_start(found: list[Limit], start: str) -> Limit:
    return next(limit for limit in found if limit.name.startswith(start))


@pytest.mark.parametrize(
    ("name", "csa", "hca", "window"), [("v4-flash", 7, 127, 128), ("v4-pro-dspark", 14, 134, 135)]
)
def test_rings_of_a_schema(name: str, csa: int, hca: int, window: int) -> None:
    found = list(schema_limits(CONFIGS[name], solvers()))
    assert all(limit.verdict.passed for limit in found)
    assert by_start(found, "CSA tail").value == by_start(found, "CSA tail").has == csa
    assert by_start(found, "HCA tail").value == by_start(found, "HCA tail").has == hca
    assert by_start(found, "window ring").value == window


def test_the_public_budget_is_short_up_to_1279_tokens() -> None:
    limit = by_start(list(schema_limits(CONFIGS["v4-flash"], solvers())), "CSA: context")
    assert (limit.value, limit.witness) == (1280, "context = 1279")


@pytest.mark.parametrize(("name", "keys"), [("v4-pro-tp8", 129_600), ("v4-pro-tp1", 16_000)])
def test_compressed_keys_for_32_bit_offsets(name: str, keys: int) -> None:
    share = scratch_systems()[name]
    (limit,) = scratch_limits(share, solvers())
    assert (limit.value, limit.verdict.passed) == (keys, True)
    assert ScratchPlan(share.widened(keys), 64, 64).total_bytes <= 2**31
    assert ScratchPlan(share.widened(keys + 1), 64, 64).total_bytes > 2**31


def test_limits_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["limits", "--system", "scratch", "v4.1-flash-tp4", "--json"]) == 0
    (limit,) = json.loads(capsys.readouterr().out)
    assert limit["verdict"] == "PASS"
    assert main(["limits", "--system", "scratch", "v4-pro"]) == 2
    assert "NAME is 'v4-pro'; for --system scratch allowed: v4-pro-tp1" in capsys.readouterr().err
