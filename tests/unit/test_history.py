"""Runs are kept whole, by any number of writers, in a folder and in a branch; a damaged one costs only itself."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvproof.harness.cli.errors import UsageError
from kvproof.harness.cli.histories import run_import, run_regressions
from kvproof.harness.cli.policy import Policy
from kvproof.reports.errors import DamagedReportError, ForeignVersionError, ReportError
from kvproof.reports.history.branch import Branch
from kvproof.reports.history.run import ALIKE, Counts, Missing, Run, Times, decode_run, encode_run, run_text
from kvproof.reports.history.series import timelines
from kvproof.reports.history.store import (
    BranchHistory,
    FolderHistory,
    History,
    export_runs,
    import_runs,
    open_history,
    prune,
)
from kvproof.reports.verdicts.noise import learned_floors

RUN = Run(
    started="2026-08-11T09:30:00Z",
    target="builtin",
    commit="a" * 40,
    parent="b" * 40,
    committed="2026-08-11T09:00:00Z",
    title="A change",
    machine={"host": "here"},
    device="NVIDIA H200",
    times=(
        Times(
            "k/c", ((1.5, 1.25), (1.5, 1.75)), "flushed", "case", "PASS", True, (1980.0, None), (40.0, 41.0), 1.0
        ),
    ),
    counts=(Counts("k/c", "cuda:90", {"instructions": 12}, "case", "PASS"),),
    missing=(Missing("k/d", "FAIL", "wrong row"),),
)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


@pytest.fixture(params=["folder", "branch"])
def history(request: pytest.FixtureRequest, tmp_path: Path, repository: Path) -> History:
    if request.param == "folder":
        return FolderHistory(tmp_path / "history")
    return BranchHistory(Branch(repository, "kvproof-history"))


def test_a_run_reads_back_equal() -> None:
    assert decode_run(run_text(RUN), "x") == RUN
    assert RUN.times[0].median == 1.5
    assert RUN.times[0].clock == 1980.0


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("started",), "yesterday", "$.started"),
        (("times", 0, "check"), "FAIL", "$.times[0].check"),
        (("times", 0, "batches", 0, 0), -1.0, "$.times[0].batches[0][0]"),
        (("times", 0, "batches", 0, 1), 0.0, "$.times[0].batches[0][1] must be above 0"),
        (("times", 0, "batches", 0, 1), math.inf, "$.times[0].batches[0][1] must be number and finite"),
        (("times", 0, "batches", 0, 1), math.nan, "$.times[0].batches[0][1] must be number and finite"),
        (("times", 0, "batches", 0, 1), 10**400, "$.times[0].batches[0][1] must be"),
        (("times", 0, "batches", 0), [], "$.times[0].batches[0] must have at least 1 items"),
        (("times", 0, "batches"), [], "$.times[0].batches must have at least 1 items"),
        (("times", 0, "bound"), math.inf, "$.times[0].bound must be number or null and finite"),
        (("counts", 0, "values", "instructions"), 10**400, "$.counts[0].values.instructions must be at most"),
        (("counts", 0, "values", "instructions"), 1.5, "$.counts[0].values.instructions"),
        (("target",), "../elsewhere", "$.target"),
    ],
)
def test_what_the_schema_refuses_is_named(path: tuple[object, ...], value: object, named: str) -> None:
    data = encode_run(RUN)
    place: object = data
    for part in path[:-1]:
        place = place[part]  # type: ignore[index]
    place[path[-1]] = value  # type: ignore[index]
    with pytest.raises(DamagedReportError) as caught:
        decode_run(json.dumps(data), "here")
    assert named in str(caught.value)


def test_another_version_is_not_damage() -> None:
    with pytest.raises(ForeignVersionError):
        decode_run(run_text(RUN).replace("kvproof/run/1", "kvproof/run/2"), "x")


def test_runs_are_kept_in_order_and_once(history: History) -> None:
    later = replace(RUN, started="2026-08-12T09:30:00Z")
    for run in (later, RUN, later):
        history.append(run)
    assert list(history.runs()) == [RUN, later]
    assert len(history.names()) == 2


def test_export_import_and_prune(history: History, tmp_path: Path) -> None:
    runs = [replace(RUN, started=f"2026-08-{day:02}T00:00:00Z") for day in range(1, 6)]
    for run in runs:
        history.append(run)
    assert export_runs(history, tmp_path / "all.jsonl") == 5
    other = FolderHistory(tmp_path / "other")
    (tmp_path / "all.jsonl").write_text((tmp_path / "all.jsonl").read_text() + "{}\n")
    count, wrong = import_runs(other, tmp_path / "all.jsonl")
    assert (count, list(other.runs())) == (5, runs)
    assert len(wrong) == 1
    assert "all.jsonl:6" in wrong[0]
    assert len(prune(history, 2)) == 3
    assert list(history.runs()) == runs[3:]


def test_a_damaged_file_is_set_aside_and_the_rest_is_read(tmp_path: Path) -> None:
    history = FolderHistory(tmp_path)
    history.append(RUN)
    (tmp_path / "builtin" / "20260101T000000Z-x-y.json").write_text("{", encoding="utf-8")
    assert list(history.runs()) == [RUN]
    assert (tmp_path / "builtin" / "20260101T000000Z-x-y.json.damaged").exists()
    assert list(history.runs()) == [RUN]


def _line(**changed: object) -> str:
    """A run as JSON, with the first of its times changed past all checks."""
    data = encode_run(RUN)
    data["times"][0].update(changed)
    return json.dumps(data)


UNUSABLE = {
    "zero": {"batches": [[0.0, 1.0]]},
    "infinite": {"batches": [[math.inf]]},
    "no time": {"batches": [[]]},
    "no batch": {"batches": []},
    "no pairs": {"mode": ALIKE, "batches": [[1.0], [1.0], [1.0]]},
}


def test_stored_times_that_nothing_can_be_said_of_cost_only_their_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = FolderHistory(tmp_path / "h")
    history.append(RUN)
    for name, changed in UNUSABLE.items():
        (tmp_path / "h" / "builtin" / f"{name}.json").write_text(_line(**changed), encoding="utf-8")
    assert run_regressions(str(tmp_path / "h"), "10", None, Policy()) == 0
    assert "2 series over 1 commits" in capsys.readouterr().out
    assert {path.name for path in tmp_path.rglob("*.damaged")} == {f"{name}.json.damaged" for name in UNUSABLE}
    assert learned_floors(history.runs(), "here") == {}


@pytest.mark.parametrize("changed", UNUSABLE.values(), ids=UNUSABLE)
def test_times_that_nothing_can_be_said_of_are_not_kept_and_no_reader_falls_over_them(
    changed: dict[str, Any], tmp_path: Path
) -> None:
    batches = tuple(tuple(batch) for batch in changed["batches"])
    run = replace(RUN, device="cpu", times=(Times("k/c", batches, changed.get("mode", "host")),))
    with pytest.raises(DamagedReportError):
        FolderHistory(tmp_path).append(run)
    (line,) = timelines([run])
    assert [series.metric for series in line.series] == ["instructions"]
    assert "it was stored with" in line.missing[0][-1].reason
    assert learned_floors([replace(run, times=(replace(run.times[0], mode=ALIKE),))] * 5, "here") == {}


def test_an_import_names_what_it_does_not_add_and_adds_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    second = replace(RUN, started="2026-08-12T09:30:00Z")
    lines = [json.dumps(encode_run(RUN)), *(_line(**changed) for changed in UNUSABLE.values()), run_text(second)]
    (tmp_path / "runs.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "binary.jsonl").write_bytes(bytes(range(256)))
    benchmarks = [{"name": name, "stats": {"data": [seconds]}} for name, seconds in (("f", 1e-6), ("g", 0.0))]
    timed = {"datetime": "2026-08-13T09:30:00", "commit_info": {}, "machine_info": {}, "benchmarks": benchmarks}
    (tmp_path / "timed.json").write_text(json.dumps(timed), encoding="utf-8")
    (tmp_path / "none.json").write_text(json.dumps({**timed, "benchmarks": [{}]}), encoding="utf-8")
    names = ("binary.jsonl", "none.json", "timed.json", "runs.jsonl")
    assert run_import([str(tmp_path / name) for name in names], str(tmp_path / "h"), "builtin", "cpu") == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "3 runs added"
    places = [line.split(f"{tmp_path}/")[1].split(" ")[0] for line in said[1:]]
    assert places == ["binary.jsonl", "none.json:", "timed.json:", *(f"runs.jsonl:{n}:" for n in range(2, 7))]
    assert "g: a time that is not above zero" in said[3]
    found = list(FolderHistory(tmp_path / "h").runs())
    assert found[:2] == [RUN, second]
    assert ([times.name for times in found[2].times], [item.name for item in found[2].missing]) == (["f"], ["g"])
    with pytest.raises(UsageError):
        run_import([str(tmp_path / "runs.jsonl"), str(tmp_path / "nowhere")], str(tmp_path / "other"), "x", "cpu")
    assert not (tmp_path / "other").exists()


WRITER = """
import sys
from dataclasses import replace
from pathlib import Path
from kvproof.reports.history.run import Run
from kvproof.reports.history.store import BranchHistory, FolderHistory
from kvproof.reports.history.branch import Branch
kind, place, mine = sys.argv[1:]
history = FolderHistory(Path(place)) if kind == "folder" else BranchHistory(Branch(Path(place), "h"))
for number in range(8):
    history.append(Run(started=f"2026-08-1{mine}T00:00:0{number}Z", target="builtin", commit=mine * 40))
"""


@pytest.mark.parametrize("kind", ["folder", "branch"])
def test_writers_at_the_same_time_lose_nothing(kind: str, tmp_path: Path, repository: Path) -> None:
    place = tmp_path / "runs" if kind == "folder" else repository
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, kind, str(place), str(number)], env=_environment())
        for number in range(3)
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    history = FolderHistory(place) if kind == "folder" else BranchHistory(Branch(place, "h"))
    assert len(list(history.runs())) == 24


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def test_where_a_history_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KVPROOF_HISTORY", "somewhere")
    assert isinstance(open_history(), FolderHistory)
    with pytest.raises(ReportError):
        open_history("git:x")
    monkeypatch.chdir(repository)
    assert isinstance(open_history("git:x"), BranchHistory)
    with pytest.raises(ReportError):
        open_history("git:not..allowed")
