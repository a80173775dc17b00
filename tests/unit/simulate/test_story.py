"""Reading a failure: the story, the row's history, the picture; and replaying it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from kvproof.harness.cli.main import main
from kvproof.harness.run.replay import replay
from kvproof.harness.simulate.executor import Executor
from kvproof.harness.simulate.findings import finding_of, stored_schedule
from kvproof.harness.simulate.operations import (
    KINDS,
    Admit,
    Boundary,
    Decode,
    Drain,
    Evict,
    Finish,
    Fork,
    Operation,
    Preempt,
    Prefill,
    Resume,
    Transfer,
    schedule_from_json,
    schedule_json,
)
from kvproof.harness.simulate.picture import pool_state
from kvproof.harness.simulate.places import Settings
from kvproof.harness.simulate.schedule import SMALL, Failure, World, failure_of
from kvproof.harness.simulate.site import Size
from kvproof.reports.pool_picture import pool_svg
from kvproof.reports.store import Store
from kvproof.reports.verdict import Status

EVERY: list[Operation] = [
    Admit(1, 0, 128, 3, 4),
    Prefill(((1, 131),), 2),
    Decode(((1, 2, 1),), 3),
    Fork(1, 2, 2),
    Preempt(1),
    Resume(1),
    Transfer(1),
    Evict(2),
    Boundary(3),
    Finish(2),
    Drain(),
]


class Overwrites(Executor):
    """The writer of a draft takes the place of an older row."""

    def written_place(self, position: Any) -> Any:
        return np.where(position == 9, 3, super().written_place(position))


WORLD = World(parts={"executor": Overwrites})
SCHEDULE: list[Operation] = [Admit(1, own=7, answer=4), Prefill(((1, 7),)), Decode(((1, 2, 0),))]


def failed() -> Failure:
    found = failure_of(WORLD, SCHEDULE)
    assert found is not None
    return found


def test_every_operation_has_a_line_and_a_stored_form() -> None:
    assert {type(operation) for operation in EVERY} == set(KINDS.values())
    assert schedule_from_json(schedule_json(EVERY)) == EVERY
    assert failure_of(World(), EVERY) is None


def test_a_story_ends_in_what_was_read_and_who_wrote_it() -> None:
    state = pool_state(WORLD, failed())
    assert state.story[:2] == [
        "1. request 1 is admitted: 7 of its own, 4 to be generated",
        "2. prefill: request 1 up to position 7",
    ]
    assert "holds window position 9 of rejected draft 0" in state.story[-1]
    assert "written by request 1 in step 3" in state.story[-1]
    assert [line.split(" (")[0] for line in state.history] == ["step 2", "step 3"]
    assert "window position 3 of request 1" in state.history[0]


def test_the_picture_shows_every_block_and_slot() -> None:
    state = pool_state(WORLD, failed())
    root = ET.fromstring(pool_svg(state))
    texts = ["".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]
    groups = list(root.iter("{http://www.w3.org/2000/svg}g"))
    assert len(groups) == len(state.blocks) + len(state.slots)
    assert [part.number for part in state.slots if part.failing] == [4]
    assert not any(part.failing for part in state.blocks)
    assert state.blocks[0].owner == state.slots[-1].owner == 1
    assert f"row {state.row:,} at fault" in texts
    assert max(part.stop for part in state.blocks) <= min(part.start for part in state.slots)


def test_a_finding_is_stored_told_and_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KVPROOF_STORE", str(tmp_path))
    # One that fails in the simulator as it is: a window ring with a place too few for two drafts.
    world = World(Settings(SMALL, ring_slots=7))
    steps: list[Operation] = [
        Admit(1, own=9, answer=8),
        Prefill(((1, 9),)),
        Decode(((1, 2, 0),)),
    ]
    found = failure_of(world, steps)
    assert found is not None
    finding = finding_of(world, found, "reference", "", 0)
    Store().save_finding(finding)
    stored, schedule = stored_schedule(Store().find(finding.id))
    assert (stored.settings, stored.size) == (world.settings, world.size)
    assert tuple(schedule) == found.schedule
    assert replay(finding).verdict.status is Status.FAIL
    assert main(["replay", finding.id]) == 1
    assert main(["story", finding.id, "--svg", str(tmp_path / "pool.svg")]) == 1
    told = capsys.readouterr().out
    assert "=> window:" in told
    assert "history of row" in told
    assert ET.parse(tmp_path / "pool.svg").getroot().tag.endswith("svg")


def test_a_failure_in_the_other_pool_is_drawn_there() -> None:
    class Bare(Executor):
        def copy_blocks(self, source: Any, target: Any, blocks: list[int], copies: list[int]) -> None:
            pass

    world = World(Settings(SMALL), parts={"executor": Bare})
    schedule = [Admit(1, own=4, answer=2), Prefill(((1, 4),)), Transfer(1), Decode(((1, 0, 0),))]
    failure = failure_of(world, schedule)
    assert failure is not None
    assert failure.broken.facts["pool"] == 1
    state = pool_state(world, failure)
    assert "other pool" in state.title
    assert [(part.number, part.owner) for part in state.blocks if part.failing] == [(0, 1)]


def test_a_fork_without_a_block_for_its_copy_leaves_nothing() -> None:
    world = World(Settings(SMALL), Size(slots=2, blocks=2, positions=1040, prefix_cache=False))
    engine = world.host()
    assert engine.apply(Admit(1, own=130, answer=2))
    site = engine.sites[0]
    assert engine.apply(Prefill(((1, 130),)))
    while site.pool.take_block() is not None:
        pass
    before = dict(site.pool.references), site.pool.free_slots, engine.truth.live
    assert not engine.apply(Fork(1, 2, 1))
    assert (dict(site.pool.references), site.pool.free_slots, engine.truth.live) == before
    assert 2 not in engine.where
