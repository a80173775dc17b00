"""``kvproof ir check --target``: offsets in 32 bits with file and line, of all kernels or of named contracts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")

from kvproof.harness.cli import ir_targets
from kvproof.harness.cli.errors import UsageError
from kvproof.harness.cli.ir_targets import run_target_check

STANDIN = Path(__file__).parents[2] / "conformance"
PROFILE = f"""
root = "{STANDIN}"
marker = "standin/kernels.py"
kernels = ["standin.kernels"]

[types]
WindowParams = "standin.layout:Window"

[[entries]]
contract = "window_write"
function = "standin.kernels:swa_write"
constants = {{ fault = "FAULT" }}

[[entries]]
contract = "row_scatter"
function = "standin.kernels:swa_scatter_rows"
"""
pytestmark = pytest.mark.slow


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KVPROOF_STORE", str(tmp_path / "store"))
    monkeypatch.setattr(ir_targets, "SECONDS", 60.0)  # its cases end it first, on a busy machine too
    file = tmp_path / "standin.toml"
    file.write_text(PROFILE.replace("FAULT", "narrow offset"))
    return file


def rows_of(profile: Path, *names: str, status: int) -> list[dict[str, Any]]:
    """What the command writes to its --json file."""
    file = profile.with_suffix(".json")
    assert run_target_check(str(profile), names, "cuda:90", sarif=None, json_file=str(file)) == status
    return json.loads(file.read_text())


def test_named_contracts_list_their_kernels_alone(profile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = (STANDIN / "standin" / "kernels.py").read_text().splitlines()
    line = next(n for n, text in enumerate(source, 1) if "row.to(tl.int32) * pool_stride" in text)
    (row,) = rows_of(profile, "window_write", status=1)
    assert (row["kernel"], row["launched"]) == ("kernels:_write_kernel", True)
    assert [(o["file"], o["line"], o["argument"]) for o in row["offsets"]] == [
        ("standin/kernels.py", line, "pool")
    ]
    (row,) = rows_of(profile, "row_scatter", status=0)
    assert (row["kernel"], row["offsets"]) == ("kernels:_scatter_kernel", [])
    told = " ".join(capsys.readouterr().out.split())
    assert "1 kernels (1 compiled as a case launched them" in told
    assert "all offsets wide in 1: kernels:_scatter_kernel" in told
    with pytest.raises(UsageError, match="'state_update' is not offered; allowed: row_scatter, window_write"):
        rows_of(profile, "state_update", status=2)


def test_without_names_every_kernel_is_listed_and_what_is_widened_is_no_place(profile: Path) -> None:
    profile.write_text(PROFILE.replace("FAULT", ""))
    rows = rows_of(profile, status=1)
    places = {row["kernel"]: [o["factors"] for o in row["offsets"]] for row in rows if not row["problem"]}
    assert places["kernels:_write_kernel"] == []
    assert places["kernels:_scatter_kernel"] == []
    launched = {row["kernel"] for row in rows if row["launched"]}
    assert launched == {"kernels:_write_kernel", "kernels:_scatter_kernel"}
    assert len(rows) > len(launched)
