"""``--system``: the layouts of schema and scratch plans, and which checks a run is made of."""

from __future__ import annotations

import itertools
import json

import pytest

from kvproof.harness.cli import engines
from kvproof.harness.cli.errors import UsageError
from kvproof.harness.cli.layout_schema import schema_facts
from kvproof.harness.cli.layout_scratch import picture, scratch_facts, scratch_plan
from kvproof.harness.cli.main import main
from kvproof.harness.cli.systems import parse_systems, proof_subjects, statements_of
from kvproof.models.deepseek_v4 import CONFIGS, real_configs


def scratch(*more: str) -> list[str]:
    return ["layout", "--system", "scratch", "--family", "v4-pro", "--tokens", "16", "--tp", "8", *more]


def test_a_scratch_plan_is_shown_as_table_and_picture(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(scratch()) == 0
    shown = capsys.readouterr().out
    assert "3,248,128 bytes of scratch" in shown
    for region in ("x8", "qkvp", "part", "pstat", "ardy"):
        assert f" {region} " in shown
    assert "72.6 %" in shown


def test_scratch_facts_are_the_plans(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(scratch("--topk", "8192", "--chunk", "64", "--json")) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["chunk"], facts["chunks"], facts["dims"]["keys"]) == (64, 130, 8320)
    assert facts["total_bytes"] == scratch_plan("v4-pro", "8", "16", "8192", "64").total_bytes
    spans = [(r["offset"], r["offset"] + r["bytes"]) for r in facts["regions"]]
    assert all(stop <= start for (_, stop), (start, _) in itertools.pairwise(spans))
    assert facts["regions"][7]["extents"] == {"token": 16, "chunk": 130, "head": 16, "dim": 512}


def test_the_picture_has_one_line_a_region_and_keeps_their_order() -> None:
    lines = picture(scratch_facts(scratch_plan("v4.1-flash", "2", "3", None, None)))
    assert len(lines) == 16
    assert {len(line.partition("|")[2].partition("|")[0]) for line in lines} == {64}
    starts = [line.index("#") for line in lines]
    assert starts == sorted(starts)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["layout", "--system", "pool"], "--system is 'pool'; allowed: row-space, schema, scratch"),
        (["layout"], "name a configuration or a config.json"),
        (["layout", "--system", "scratch"], "--family is None; allowed: v4-pro, v4.1-flash"),
        (["layout", "--system", "scratch", "--family", "v4-pro"], "needs --family, --tp and --tokens"),
        (scratch("--kv", "bf16"), "--kv is 'bf16', which means nothing for --system scratch"),
        (["layout", "v4-pro", "--tp", "8"], "--tp is '8', which means nothing for --system row-space"),
        ([*scratch()[:-1], "3"], "tp is 3; v4-pro is served with 1, 2, 4, 8"),
        (scratch("--chunk", "96"), "chunk is 96; allowed: 64, 128"),
        (["prove", "--system", "rows"], "--system is 'rows'; allowed: row-space, schema, scratch"),
        (["prove", "--system", "schema", "--system", "schema"], "--system names schema more than once"),
    ],
)
def test_wrong_input_is_named(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_schema_is_shown_with_its_budgets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["layout", "--system", "schema", "v4-flash"]) == 0
    shown = capsys.readouterr().out
    assert "0 (short)" in shown
    assert "68,755" in shown


def test_schema_facts() -> None:
    facts = schema_facts(CONFIGS["v4-pro-mtp1"])
    csa = next(kind for kind in facts["kinds"] if kind["kind"] == "CSA")
    assert (csa["layers"], csa["tail"], csa["document_tail"]) == (30, 8, 3)
    assert csa["block_bytes"] == {"bf16": 32768, "fp8": 18560, "packed": 18688, "planes": 20480}
    assert facts["budgets"][0] == {
        "context": 4,
        "requests": 1,
        "held": {"csa": 1, "hca": 0},
        "blocks": {"csa": 2, "hca": 0},
        "floor_formula": 0,
    }


def test_a_named_configuration_leaves_the_scratch_plans_out() -> None:
    assert parse_systems(None) == ("row-space", "schema", "scratch")
    assert parse_systems(None, configs_named=True) == ("row-space", "schema")
    assert parse_systems(["scratch"], configs_named=True) == ("scratch",)
    with pytest.raises(UsageError, match="--system is 'x'"):
        parse_systems(["x"])


def test_every_planned_proof_has_a_subject_and_a_statement() -> None:
    configs = real_configs()[:2]
    systems = ("row-space", "schema", "scratch")
    planned = engines.planned_proofs(configs, systems)
    pairs = {
        (subject.name, statement.name)
        for subject in proof_subjects(systems, configs)
        for system in systems
        for statement in statements_of(system)
        if statement.system == subject.system
    }
    assert set(planned) == pairs
    assert len(planned) == len(pairs)
