"""``kvproof simulate``: exit statuses, what it prints and keeps, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvproof.harness.cli.main import main
from kvproof.harness.simulate import campaign
from kvproof.harness.simulate.executor import Executor
from kvproof.harness.simulate.schedule import World


@pytest.fixture(autouse=True)
def _store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVPROOF_STORE", str(tmp_path / "store"))


def test_a_campaign_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = tmp_path / "record.json"
    assert main(["simulate", "--steps", "300", "--journal", str(tmp_path / "j"), "--json", str(record)]) == 0
    printed = capsys.readouterr().out
    assert "v4-flash, representative layers; seed 0" in printed
    assert "PASS lifetimes" in printed
    (result,) = json.loads(record.read_text())["results"]
    assert (result["engine"], result["verdict"]["status"]) == ("simulate", "PASS")
    assert result["verdict"]["assumptions"] == ["an index is the same for all layers of a class"]
    assert result["cases"] >= 300
    assert main(["simulate", "--steps", "300", "--journal", str(tmp_path / "j")]) == 0
    assert "0 of them in" in capsys.readouterr().out


def test_all_layers_of_a_configuration_with_drafts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--steps", "60", "--layers", "all", "--config", "v4-pro-dspark"]) == 0
    assert "rejected drafts" in capsys.readouterr().out


def test_a_failure_is_told_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Early(Executor):
        def visible(self, batch: Any, ratio: int) -> Any:
            return (batch.ends - 1) // ratio + 1

    monkeypatch.setattr(campaign, "world_of", lambda *_: World(parts={"executor": Early}))
    monkeypatch.setattr(campaign, "MOST_FINDINGS", 1)
    assert main(["simulate", "--steps", "200"]) == 1
    printed = capsys.readouterr().out
    assert "FAIL entries" in printed
    assert "1. request 1 is admitted" in printed
    (finding,) = (tmp_path / "store" / "findings").glob("*.json")
    assert f"kvproof replay {finding.stem}" in printed
    # Without what was planted the stored schedule holds.
    assert main(["replay", finding.stem]) == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--steps", "0"], "--steps is '0'; allowed: an integer from 1 to"),
        (["--layers", "some"], "--layers is 'some'; allowed: representative, all"),
        (["--target", "other"], "--target is 'other'; allowed: reference, builtin"),
        (["--device", "ir"], "--device is 'ir', but --target reference runs no kernels"),
        (["--target", "builtin", "--device", "tpu"], "--device is 'tpu'; allowed: ir, interpret, cuda, hip"),
        (["--config", "v5"], "--config is 'v5'"),
        (["--seed", "-1"], "--seed is '-1'"),
        (["--jobs", "0"], "--jobs is '0'"),
        (["--journal", ""], "--journal is ''; allowed: a folder"),
    ],
)
def test_bad_options_are_refused(options: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", *options]) == 2
    assert words in capsys.readouterr().err


def test_a_journal_of_another_seed_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--steps", "10", "--journal", str(tmp_path / "j")]) == 0
    assert main(["simulate", "--steps", "10", "--journal", str(tmp_path / "j"), "--seed", "1"]) == 2
    assert "another campaign: it differs in seed" in capsys.readouterr().err


def test_an_absent_device_is_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--steps", "10", "--target", "builtin", "--device", "hip"]) == 3
    assert "NOT_RUN lifetimes: device hip is not here" in capsys.readouterr().out
