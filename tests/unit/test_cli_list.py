"""What ``kvproof fuzz`` says that it would run, and that the joint obligations are part of it."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from kvproof.harness.cli import engines
from kvproof.harness.cli.main import main
from kvproof.kernels.registry import all_kernels
from kvproof.models.deepseek_v4 import CONFIGS
from kvproof.properties.joint.obligations import OBLIGATIONS
from kvproof.reports.verdict import Status


def test_the_list_names_kernels_and_joint_obligations(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", "--list", "--config", "v4-flash", "--device", "ir"]) == 0
    shown = capsys.readouterr().out
    named = {line.split()[0] for line in shown.splitlines() if line.strip()}
    paged = {name for name in all_kernels() if not name.startswith(("page_", "split_"))}
    assert paged | set(OBLIGATIONS) <= named


def test_a_joint_obligation_is_fuzzed_like_any_property() -> None:
    devices = engines.find_devices("ir")
    tasks = engines.fuzz_tasks([CONFIGS["v4-flash"]], devices, any_layout=False)
    task = next(task for task in tasks if task.property_name == "order")
    # A configuration without drafts can show no rejected one, so none is needed.
    assert "rejected drafts" in OBLIGATIONS["order"].needs.events
    assert "rejected drafts" not in task.needs.events
    result, ended = engines.attempt(task, engines.Turn(30.0, seed=0))
    assert ended
    assert (result.subject, result.device) == ("v4-flash", "ir")
    assert result.verdict.status is Status.PASS
    assert result.cases >= OBLIGATIONS["order"].needs.cases
