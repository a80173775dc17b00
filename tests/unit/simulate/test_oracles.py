"""Metamorphic oracles over drawn schedules, and that they can fail."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import pytest

from kvproof.harness.simulate.broken import Broken
from kvproof.harness.simulate.executor import Executor
from kvproof.harness.simulate.operations import (
    Admit,
    Boundary,
    Decode,
    Drain,
    Evict,
    Fork,
    Operation,
    Preempt,
    Prefill,
)
from kvproof.harness.simulate.oracles import ORACLES, check, run
from kvproof.harness.simulate.places import Settings
from kvproof.harness.simulate.schedule import SMALL, SMALL_WORKLOAD, World, draw
from kvproof.harness.simulate.site import Size

# Every entry is selected, so that two schedules select the same; and room for all, so that nobody waits.
WORLD = World(
    Settings(dataclasses.replace(SMALL, index_topk=4096)),
    Size(slots=5, blocks=200, positions=1040, images=64),
    Size(slots=5, blocks=200, positions=1040, images=0, prefix_cache=False),
    workload=dataclasses.replace(SMALL_WORKLOAD, trouble=1.0),
)


@functools.cache
def drawn(seed: int) -> list[Operation]:
    """A schedule without what depends on how full the pool is, or on how far a parent was when it was forked."""
    engine, failure = draw(WORLD, [seed], 150)
    assert failure is None
    assert not engine.events.get("no block")
    return [op for op in engine.trail if not isinstance(op, Boundary | Evict | Drain | Fork)]


@pytest.mark.parametrize("name", ORACLES)
def test_oracle_holds(name: str) -> None:
    compared = sum(check(WORLD, drawn(seed), name) for seed in range(3))
    assert compared > 3000


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        ("plain decoding", "rejected drafts"),
        ("prefix recomputed", "prefix hit"),
        ("never preempted", "preempted, recompute"),
        ("never preempted", "preempted, checkpoint"),
        ("never moved", "transferred"),
        ("unpadded", "padded"),
    ],
)
def test_drawn_schedules_do_what_the_oracle_undoes(name: str, needed: str) -> None:
    assert name in ORACLES
    assert sum(draw(WORLD, [seed], 150)[0].events.get(needed, 0) for seed in range(3)) >= 3


class Blurred(Executor):
    """Accepts whatever it finds, so that only a comparison can tell; and resumes without the window."""

    def read_windows(self, memory: Any, batch: Any) -> None:
        try:
            super().read_windows(memory, batch)
        except Broken:
            record = self.recorder
            assert record is not None
            record(batch, "window 0", batch.sequence[:0], batch.position[:0], batch.stamps[:0])

    def pool_groups(self, memory: Any, batch: Any, ratio: int) -> None:
        pass

    def read_draft_window(self, memory: Any, batch: Any) -> None:
        pass

    def restore(self, memory: Any, image: Any, slot: int) -> None:
        pass


def test_oracle_finds_what_differs() -> None:
    schedule = [Admit(1, own=9, answer=4), Prefill(((1, 9),)), Preempt(1), *_resumed()]
    blurred = dataclasses.replace(WORLD, parts={"executor": Blurred})
    with pytest.raises(Broken, match="preempting and resuming: window 0 reads of request 1 at position 9 differ"):
        check(blurred, schedule, "never preempted")
    assert check(WORLD, schedule, "never preempted") > 0


def _resumed() -> list[Operation]:
    from kvproof.harness.simulate.operations import Resume

    return [Resume(1), Decode(((1, 0, 0),))]


def test_reads_are_those_of_the_positions() -> None:
    reads = run(WORLD, [Admit(1, own=9, answer=2), Prefill(((1, 5),)), Prefill(((1, 9),)), Decode(((1, 2, 0),))])
    window = SMALL.sliding_window
    for pos in range(10):
        places = [(stamp >> 12) & (2**22 - 1) for stamp in reads.found[1, pos, "window 0"]]
        assert places == list(range(max(pos - window + 1, 0), pos + 1))
        assert len(reads.found.get((1, pos, "entries 4"), ())) == (pos + 1) // 4
    assert reads.complete == {1}
