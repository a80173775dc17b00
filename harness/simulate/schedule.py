"""Running a schedule: operations on fresh pools, with or without a planted fault."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kvproof.harness.simulate.broken import Broken
from kvproof.harness.simulate.driver import Driver, Workload
from kvproof.harness.simulate.engine import Engine
from kvproof.harness.simulate.operations import Drain, Operation
from kvproof.harness.simulate.places import Settings
from kvproof.harness.simulate.site import Size
from kvproof.models.deepseek_v4 import ModelConfig

SMALL = ModelConfig(
    "small",
    (0, 4, 128, 4),
    draft="dspark",
    draft_layers=1,
    draft_tokens=2,
    sliding_window=6,
    block_size=128,
    index_topk=16,
)
"""A layout with every class and a draft window, small enough that a few tokens reach every ring."""

SMALL_SIZE = Size(slots=4, blocks=9, positions=1040, images=3)
SMALL_WORKLOAD = Workload(families=2, shared=800, own=60, answer=12, chunk=280, trouble=0.5, bucket=4)


@dataclass(frozen=True)
class World:
    """What a schedule is run on.

    Attributes:
        settings, size, other: as :class:`Engine` takes them.
        engine: the host.
        parts: stand-ins for pool, executor and memory.
        workload: what is drawn for it.
    """

    settings: Settings = field(default_factory=lambda: Settings(SMALL))
    size: Size = SMALL_SIZE
    other: Size | None = None
    engine: Callable[..., Engine] = Engine
    parts: dict[str, Any] = field(default_factory=dict[str, Any])
    workload: Workload = SMALL_WORKLOAD

    def host(self) -> Engine:
        """Fresh pools without requests."""
        return self.engine(self.settings, self.size, self.other, self.parts)


@dataclass(frozen=True)
class Failure:
    """A schedule and what does not hold in it.

    Attributes:
        schedule: the operations, the failing one last.
        broken: what does not hold.
    """

    schedule: tuple[Operation, ...]
    broken: Broken


def run_schedule(world: World, schedule: Sequence[Operation]) -> Engine:
    """Carry out a schedule on fresh pools.

    Raises:
        Broken: something does not hold.
    """
    engine = world.host()
    for operation in schedule:
        engine.apply(operation)
    return engine


def failure_of(world: World, schedule: Sequence[Operation]) -> Failure | None:
    """What does not hold in a schedule, and the operations up to there; None if all holds.

    A drain that fails in the middle is given as what it did, since that is what failed.
    """
    engine = world.host()
    for number, operation in enumerate(schedule):
        before = len(engine.trail)
        try:
            engine.apply(operation)
        except Broken as broken:
            done = list(schedule[: number + 1])
            if isinstance(operation, Drain) and not isinstance(engine.failed, Drain):
                done[-1:] = engine.trail[before + 1 :]
            return Failure(tuple(done), broken)
    return None


def draw(world: World, seed: int | Sequence[int], request_steps: int) -> tuple[Engine, Failure | None]:
    """A drawn schedule of about so many request-steps, drained at its end."""
    engine = world.host()
    driver = Driver(engine, np.random.default_rng(seed), world.workload)
    try:
        driver.run(request_steps)
    except Broken as broken:
        done = [operation for operation in engine.trail if not isinstance(operation, Drain)]
        if broken.check == "liveness" or isinstance(engine.failed, Drain):
            # What a drain did follows from the operation itself; and a drain shows that nothing gets on.
            first = next((n for n, op in enumerate(engine.trail) if isinstance(op, Drain)), len(engine.trail))
            done = [*engine.trail[:first], Drain()]
        return engine, Failure(tuple(done), broken)
    return engine, None


def find(world: World, seed: int = 0, episodes: int = 100, request_steps: int = 200) -> Failure | None:
    """The first failure of drawn schedules; None if all hold."""
    for episode in range(episodes):
        _, failure = draw(world, [seed, episode], request_steps)
        if failure is not None:
            return failure
    return None
