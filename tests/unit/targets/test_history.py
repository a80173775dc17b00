"""A sweep over a small repository: a fault that goes with its commit, and a function that is renamed."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from kvproof.harness.cli.errors import UsageError
from kvproof.harness.cli.history import changes, run_sweep
from kvproof.harness.run.target_history import Depth, Examiner, Snapshot, compare, sweep
from kvproof.harness.targets.device import IsolatedDevice
from kvproof.harness.targets.revisions import Commit, resolve_revision

pytest.importorskip("triton", reason="a worker runs kernels")

WRITES = """
def swa_scatter_rows(kv, dest_rows, batch_id_per_token, pool, *, prefix=""):
    for t in range(kv.shape[0]):
        row = int(dest_rows[t])
        if {live} and 0 <= row < pool.shape[0]:
            pool[row].copy_(kv[t])
"""
FAULTY = WRITES.format(live="True")
RIGHT = WRITES.format(live="int(batch_id_per_token[t]) >= 0")
DEPTH = Depth("interpret", seconds=90, cases=80, shrink_seconds=3)


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@t")
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True, timeout=60)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    kernels = folder / "atom/model_ops/v4_kernels"
    kernels.mkdir(parents=True)
    git(tmp_path, "init", "-q", str(folder))
    renamed = RIGHT.replace("swa_scatter_rows", "scatter")
    for title, text in (("first", FAULTY), ("padding is skipped", RIGHT), ("another name", renamed)):
        (kernels / "state_writes.py").write_text(text)
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", title)
        if title == "first":
            (folder / "readme").write_text("nothing relevant")
            git(folder, "add", ".")
            git(folder, "commit", "-q", "-m", "a readme")
    return folder


@pytest.mark.slow
def test_a_sweep_tells_what_goes_and_what_is_no_longer_offered(repository: Path, tmp_path: Path) -> None:
    kept: list[object] = []
    found = list(sweep("atom", repository, "HEAD~2", "HEAD", DEPTH, kept.append, tmp_path / "s"))
    assert [s.commit.title for s in found] == ["before", "padding is skipped", "another name"]
    assert [s.mapped for s in found] == [["row_scatter"], ["row_scatter"], []]
    assert kept
    goes = changes(found[0], found[1])
    assert len(goes) == len(found[0].causes) >= 1
    assert all(line.startswith("row_scatter: goes: content: pool row") for line in goes)
    (renamed,) = changes(found[1], found[2])
    assert "row_scatter: no longer mapped" in renamed
    assert "has no 'swa_scatter_rows'" in renamed


@pytest.mark.slow
def test_a_cause_that_only_chance_has_not_met_is_added_and_one_that_is_gone_is_not(
    repository: Path, tmp_path: Path
) -> None:
    file = repository / "atom/model_ops/v4_kernels/state_writes.py"
    for title, text in (
        ("a comment", FAULTY + "# one\n"),
        ("another comment", FAULTY + "# two\n"),
        ("right", RIGHT),
    ):
        file.write_text(text)
        git(repository, "commit", "-q", "-a", "-m", title)
    examiner = Examiner("atom", repository, replace(DEPTH, cases=30), lambda _finding: None)
    commits = [Commit(resolve_revision(repository, f"HEAD~{n}"), "", f"{n} before") for n in (2, 1, 0)]
    seen = [examiner.examine(commit, tmp_path / "s") for commit in commits]
    causes = dict(seen[0].causes)
    assert causes
    seen[1].causes.clear()
    examiner.settle(seen[:2], tmp_path / "s")
    assert seen[1].causes == causes
    seen[0].causes.clear()
    examiner.settle(seen[:2], tmp_path / "s")
    assert seen[0].causes == causes
    examiner.settle(seen, tmp_path / "s")
    assert not seen[2].causes
    seen[2].causes.update(causes)  # as if met at the last one first
    seen[0].causes.clear()
    seen[1].causes.clear()
    examiner.settle(seen, tmp_path / "s")
    assert seen[0].causes == seen[1].causes == causes


@pytest.mark.slow
def test_a_comparison_names_the_input(repository: Path) -> None:
    sides = ((repository, "HEAD~2"), (repository, "HEAD~1"))
    found = list(compare("atom", sides, DEPTH, lambda _finding: None))
    assert {one.subject for one in found} == {"row_scatter"}
    for one in found:
        assert "as expected" in one.words
        assert one.finding is not None
        assert min(one.finding.case["launch"]["values"]["batch_id_per_token"]["bits"]) < 0


@pytest.mark.slow
def test_a_sweep_that_was_broken_off_goes_on_where_it_was(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KVPROOF_STORE", str(tmp_path / "store"))
    file = tmp_path / "sweep.json"
    target = f"atom:{repository}"

    def run(*, resume: bool, cases: str = "20") -> str:
        given = ("interpret", "90s", cases, "0", str(file))
        assert run_sweep(target, "HEAD~2", *given, resume=resume) == 0
        return " ".join(capsys.readouterr().out.split())

    whole = run(resume=False)
    assert "row_scatter: goes: content: pool row" in whole
    data = json.loads(file.read_text())
    assert [len(entry["causes"]) > 0 for entry in data["commits"]] == [True, False, False]
    looked: list[str] = []
    look = Examiner._look

    def counted(examiner: Examiner, commit: Commit, device: IsolatedDevice) -> Snapshot:
        looked.append(commit.title)
        return look(examiner, commit, device)

    monkeypatch.setattr(Examiner, "_look", counted)
    # As if it had been broken off behind the first commit.
    file.write_text(json.dumps({**data, "commits": data["commits"][:1]}))
    assert run(resume=True) == whole
    assert looked == ["padding is skipped", "another name"]
    assert json.loads(file.read_text()) == data
    looked.clear()
    assert run(resume=True) == whole
    assert looked == []
    with pytest.raises(UsageError, match="allowed with --resume: the same as now"):
        run(resume=True, cases="21")
    file.write_text("[]")
    with pytest.raises(UsageError, match="holds no sweep to resume"):
        run(resume=True)
    with pytest.raises(UsageError, match="--resume needs --json FILE"):
        run_sweep(target, "HEAD~2", "interpret", "90s", "20", "0", None, resume=True)
