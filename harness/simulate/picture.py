"""The pool at a failing step and the history of the row at fault, for :mod:`kvproof.reports.pool_picture`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kvproof.harness.simulate.broken import Broken
from kvproof.harness.simulate.engine import Engine
from kvproof.harness.simulate.memory import Memory
from kvproof.harness.simulate.operations import Operation
from kvproof.harness.simulate.schedule import Failure, World
from kvproof.harness.simulate.stamps import words
from kvproof.harness.simulate.story import line, story
from kvproof.reports.pool_picture import Part, PoolState


def watch(
    world: World, schedule: Sequence[Operation], row: int | None, plane: int, pool: int = 0
) -> tuple[Engine, Broken | None, list[str]]:
    """Carry out a schedule once more, looking at one row of a pool after each operation.

    Returns:
        (the pools as they are then, what does not hold, a line for each change of the row).
    """
    engine = world.host()
    history: list[str] = []
    broken: Broken | None = None
    memory = engine.sites[pool].memory
    before = _row(memory, plane, row)
    for number, operation in enumerate(schedule, start=1):
        try:
            engine.apply(operation)
        except Broken as found:
            broken = found
        after = _row(memory, plane, row)
        if row is not None and after != before:
            writer, step = memory.writer(plane, row)
            by = f", written by request {writer} in step {step}" if writer >= 0 else ""
            history.append(f"step {number} ({line(operation)}): {words(after[0])}{by}; {memory.region(row)}")
            before = after
        if broken is not None:
            break
    return engine, broken, history


def _row(memory: Memory, plane: int, row: int | None) -> tuple[int, int]:
    if row is None or row >= memory.places.plane_rows:
        return 0, 0
    return int(memory.keys[plane][row]), int(memory.who[plane][row])


def pool_state(world: World, failure: Failure) -> PoolState:
    """What is to be drawn of a failure."""
    row, plane = failure.broken.facts.get("row"), int(failure.broken.facts.get("plane", 0))
    pool = int(failure.broken.facts.get("pool", 0))
    engine, broken, history = watch(replace(world), failure.schedule, row, plane, pool)
    site = engine.sites[pool]
    memory, places = site.memory, site.places
    blocks = [
        Part(block, int(owner), block * places.envelope, (block + 1) * places.envelope)
        for block, owner in enumerate(memory.block_owner[: site.pool.block_limit].tolist())
    ]
    first = int(places.space.held_slots) - site.pool.slot_limit
    slots = [
        Part(
            at + int(places.space.slot_origin),
            int(memory.slot_owner[at]),
            at * places.slot_rows,
            (at + 1) * places.slot_rows,
        )
        for at in np.arange(first, int(places.space.held_slots)).tolist()
    ]
    if row is not None:
        blocks = [replace(part, failing=part.start <= row < part.stop) for part in blocks]
        slots = [replace(part, failing=part.start <= row < part.stop) for part in slots]
    shown = broken or failure.broken
    where = ", in the other pool" if pool else ""
    return PoolState(
        title=f"{world.settings.config.name}: {shown.check} fails in step {len(failure.schedule)}{where}",
        blocks=blocks,
        slots=slots,
        rows=places.plane_rows,
        row=row,
        story=story(failure.schedule, shown),
        history=history,
    )
