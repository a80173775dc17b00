"""Runs are kept whole, by any number of writers, in a folder and in a branch; a damaged one costs only itself."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kvproof.reports.errors import DamagedReportError, ForeignVersionError, ReportError
from kvproof.reports.history.branch import Branch
from kvproof.reports.history.run import Counts, Missing, Run, Times, decode_run, encode_run, run_text
from kvproof.reports.history.store import (
    BranchHistory,
    FolderHistory,
    History,
    export_runs,
    import_runs,
    open_history,
    prune,
)

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
