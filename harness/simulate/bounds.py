"""Least safe sizes, found by running schedules: the smallest ring, the widest read that no schedule breaks.

Small schedules suffice: what overwrites a row is one step's drafts, so a bound shows, or not, within a lap of the
ring and the verify step behind it. For each size every schedule of a family is run: prompts of each length around
a lap, in one chunk and in two, then verify steps of each number of accepted drafts. The provers find the same
limits from statements (:mod:`kvproof.harness.prove.limits`); tests hold the two to each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kvproof.harness.simulate.batch import Batch
from kvproof.harness.simulate.broken import Broken
from kvproof.harness.simulate.executor import Executor, Mask
from kvproof.harness.simulate.operations import Admit, Decode, Operation, Prefill
from kvproof.harness.simulate.places import Settings
from kvproof.harness.simulate.schedule import World, failure_of
from kvproof.harness.simulate.site import Size
from kvproof.models.deepseek_v4 import ModelConfig


@dataclass(frozen=True)
class Bound:
    """One bound.

    Attributes:
        name: what is bounded.
        value: the least ring, or the widest read, that no schedule broke.
        beyond: the next one.
        schedule: one that broke it.
        broken: what did not hold.
    """

    name: str
    value: int
    beyond: int
    schedule: tuple[Operation, ...]
    broken: Broken


class _ProductionPlan(Executor):
    """Writes the state rows that production's plan keeps: as many as an entry pools."""

    def plan(self, batch: Batch, ratio: int) -> Mask:
        return batch.position >= (batch.ends - self.places.pooled[ratio])[batch.sequence]


def _reading(width: int) -> type[Executor]:
    class Reading(Executor):
        """Reads a draft window of another width."""

        def draft_read(self) -> int:
            return width

    return Reading


def schedules(config: ModelConfig, positions: int) -> Iterator[list[Operation]]:
    """Prompts of each length around a lap that ends at ``positions``, each followed by two verify steps."""
    drafts = config.draft_tokens
    kept = range(drafts + 1)
    spread = max(drafts, 1) + 5
    for prompt in range(max(positions - spread, 1), positions + spread):
        for chunks in ([prompt], [prompt - 1, prompt]):
            for first in kept:
                steps = [Decode(((1, drafts, first),)), Decode(((1, drafts, 0),)), Decode(((1, drafts, drafts),))]
                begun = [Admit(1, own=prompt, answer=3 * drafts + 4)]
                yield [*begun, *(Prefill(((1, upto),)) for upto in chunks if upto), *steps]


def first_failure(world: World, positions: int) -> tuple[Sequence[Operation], Broken] | None:
    """The first schedule of the family that does not hold."""
    for schedule in schedules(world.settings.config, positions):
        failure = failure_of(world, schedule)
        if failure is not None:
            return failure.schedule, failure.broken
    return None


def _world(settings: Settings, positions: int, executor: Callable[..., Any] = Executor) -> World:
    size = Size(1, 1, positions + 8 * (settings.config.draft_tokens + 4), 0, False)
    blocks = -(-size.positions // settings.config.block_size) + 1
    return World(settings, replace(size, blocks=blocks), parts={"executor": executor})


def _search(name: str, world: Callable[[int], World], values: Sequence[int], positions: int) -> Bound:
    """The last of ``values`` that holds, going towards the first that does not.

    Raises:
        ValueError: even the first does not hold, or all do.
    """
    held: int | None = None
    for value in values:
        failure = first_failure(world(value), positions)
        if failure is None:
            held = value
        elif held is None:
            raise ValueError(f"{name}: {value} does not hold: {failure[1]}")
        else:
            return Bound(name, held, value, tuple(failure[0]), failure[1])
    raise ValueError(f"{name}: all of {values[0]}..{values[-1]} hold")


def window_ring(config: ModelConfig) -> Bound:
    """The least window ring."""
    need = config.ring_slots
    lap = 2 * need

    def world(ring: int) -> World:
        # The draft window is a field of the configuration's own ring, and so is left out.
        plain = replace(
            config, draft="mtp" if config.draft != "none" else "none", draft_layers=min(config.draft_layers, 1)
        )
        return _world(Settings(plain, ring_slots=ring), lap)

    return _search("window ring", world, range(need + 2, 0, -1), lap)


def state_ring(config: ModelConfig, ratio: int, pooled: int) -> Bound:
    """The least state ring of a class, with production's write plan."""

    def world(ring: int) -> World:
        return _world(Settings(config, state_slack=((ratio, ring - pooled),)), 2 * pooled, _ProductionPlan)

    rings = range(pooled + config.draft_tokens, 0, -1)
    return _search(f"state ring of ratio {ratio}", world, rings, 2 * pooled)


def draft_window_read(config: ModelConfig) -> Bound:
    """The widest read of the draft layers' window."""
    lap = 2 * config.ring_slots

    def world(width: int) -> World:
        return _world(Settings(config), lap, _reading(width))

    return _search("draft-window read", world, range(config.sliding_window, config.ring_slots + 2), lap)
