"""Campaigns: deterministic, journalled, and not to be killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import kvproof
from kvproof.harness.simulate import campaign
from kvproof.harness.simulate.campaign import Outcome, Plan, run_campaign, run_episode
from kvproof.harness.simulate.executor import Executor
from kvproof.harness.simulate.journal import Journal, JournalError, decode, encode
from kvproof.harness.simulate.schedule import SMALL

PLAN = Plan(SMALL, 1500, seed=3, episode=150)

KILLED = '''
import sys
from pathlib import Path
from kvproof.harness.simulate import campaign
from kvproof.harness.simulate.executor import Executor
from kvproof.harness.simulate.schedule import SMALL

class Longer(Executor):
    """A draft window that is one position too long."""
    def draft_read(self):
        return self.places.window + 1

class Long(Executor):
    """A window that is one position too long."""
    def window_low(self, batch):
        import numpy as np
        return np.maximum(batch.starts - self.places.window, 0)

episode = campaign.world_of
def world_of(plan, number):
    import dataclasses
    world = episode(plan, number)
    planted = {1: Long, 4: Longer}.get(number)
    return dataclasses.replace(world, parts={"executor": planted}) if planted else world
campaign.world_of = world_of
plan = campaign.Plan(SMALL, 2600, seed=3, episode=150)
for outcome in campaign.run_campaign(plan, Path(sys.argv[1])):
    pass
print(outcome.episodes, outcome.request_steps, sorted(finding.id for finding in outcome.findings))
'''


def _last(plan: Plan, folder: Path | None = None) -> Outcome:
    *_, last = run_campaign(plan, folder)
    return last


def test_the_same_seed_gives_the_same_episode() -> None:
    one, other = run_episode(PLAN, 2), run_episode(PLAN, 2)
    assert one.events == other.events
    assert one.request_steps == other.request_steps >= 150
    assert run_episode(PLAN, 3).events != one.events


def test_a_campaign_goes_on_from_its_journal(tmp_path: Path) -> None:
    whole = _last(PLAN)
    some = run_campaign(PLAN, tmp_path)
    for _ in range(3):
        next(some)
    some.close()
    outcomes = list(run_campaign(PLAN, tmp_path))
    assert outcomes[0].episodes >= 2
    assert (outcomes[-1].events, outcomes[-1].request_steps) == (whole.events, whole.request_steps)
    assert not whole.findings


def test_several_processes_do_the_same_episodes(tmp_path: Path) -> None:
    two = _last(Plan(SMALL, 400, seed=3, episode=200, jobs=2), tmp_path)
    one = [run_episode(Plan(SMALL, 400, seed=3, episode=200), number) for number in range(2)]
    assert two.episodes == 2
    assert two.request_steps == sum(outcome.request_steps for outcome in one)


def test_a_damaged_tail_is_done_again(tmp_path: Path) -> None:
    whole = _last(PLAN, tmp_path)
    path = tmp_path / "journal.jsonl"
    held = path.read_bytes()
    path.write_bytes(held[:-20])
    again = _last(PLAN, tmp_path)
    assert (again.events, again.episodes) == (whole.events, whole.episodes)
    lines = path.read_bytes().splitlines(keepends=True)
    assert sum(decode(line) is None for line in lines) == 1


@pytest.mark.parametrize("at", [0, 9, 30])
def test_a_line_with_a_changed_byte_is_not_believed(at: int) -> None:
    line = encode({"episode": 1, "findings": []})
    assert decode(line) == {"episode": 1, "findings": []}
    changed = bytearray(line)
    changed[at] ^= 1
    assert decode(bytes(changed)) is None


def test_a_journal_of_another_campaign_is_refused(tmp_path: Path) -> None:
    _last(PLAN, tmp_path)
    with pytest.raises(JournalError, match="another campaign: it differs in seed"):
        list(run_campaign(Plan(SMALL, 1500, seed=4, episode=150), tmp_path))


def test_a_journal_whose_first_line_is_damaged_says_so(tmp_path: Path) -> None:
    _last(PLAN, tmp_path)
    path = tmp_path / "journal.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"campaign"', b'"campaigm"', 1))
    with pytest.raises(JournalError, match="its first line is damaged"):
        _last(PLAN, tmp_path)


def test_a_finding_taken_away_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _plant(monkeypatch, {0})
    first = _last(Plan(SMALL, 100, seed=3, episode=150), tmp_path)
    (finding,) = first.findings
    path = tmp_path / "findings" / f"{finding.id}.json"
    path.unlink()
    again = _last(Plan(SMALL, 100, seed=3, episode=150), tmp_path)
    assert [found.id for found in again.findings] == [finding.id]
    assert json.loads(path.read_text())["case"]["story"][-1].startswith("=> window")


def _plant(monkeypatch: pytest.MonkeyPatch, episodes: set[int]) -> None:
    class Long(Executor):
        def window_low(self, batch: Any) -> Any:
            return (batch.starts - self.places.window).clip(0)

    real = campaign.world_of

    def world_of(plan: Plan, number: int) -> Any:
        import dataclasses

        world = real(plan, number)
        return dataclasses.replace(world, parts={"executor": Long}) if number in episodes else world

    monkeypatch.setattr(campaign, "world_of", world_of)


def test_killed_at_any_moment_it_loses_no_finding(tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(KILLED, encoding="utf-8")
    environ = {**os.environ, "PYTHONPATH": str(Path(kvproof.__file__).parents[1])}

    def start(folder: Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(script), str(folder)], stdout=subprocess.PIPE, text=True, env=environ
        )

    def written() -> int:
        return sum(path.stat().st_size for path in sorted((tmp_path / "torn").rglob("*.jsonl")))

    whole, _ = start(tmp_path / "whole").communicate(timeout=120)
    chance = random.Random(0)
    kills = 0
    for turn in range(6):
        # Killed by what the journal holds, not by the clock: a slow machine is killed at the same places.
        seen, growths = written(), 0
        process = start(tmp_path / "torn")
        while process.poll() is None and growths <= turn % 3:
            size = written()
            growths += size != seen
            seen = size
            time.sleep(chance.uniform(0, 0.01))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.communicate(timeout=60)
    rest, _ = start(tmp_path / "torn").communicate(timeout=120)
    assert kills >= 1
    assert rest == whole
    assert rest.count("'") == 4, "two findings"


def test_an_unwritable_journal_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="cannot be written"):
        Journal(tmp_path / "file" / "journal.jsonl", {})
