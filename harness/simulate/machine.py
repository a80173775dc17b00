"""The simulator as a rule-based state machine: hypothesis draws the operations, and shrinks those that fail."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kvproof.harness.simulate.broken import Broken
from kvproof.harness.simulate.operations import (
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
)
from kvproof.harness.simulate.schedule import World
from kvproof.harness.simulate.site import Site
from kvproof.harness.simulate.story import story
from kvproof.properties.strategies.draws import seldom_low

AROUND = (-1, 0, 1)


def lengths(block: int, most: int) -> st.SearchStrategy[int]:
    """Lengths at and around the ends of groups and blocks, and any."""
    ends = sorted({max(end + by, 0) for end in (0, 4, 8, 128, block, 2 * block) for by in AROUND})
    return st.one_of(st.sampled_from([end for end in ends if end <= most]), st.integers(0, most))


class Lifetimes(RuleBasedStateMachine):
    """One simulation. Subclasses name the pools, with or without a planted fault.

    Attributes:
        world: pools.
        last_story: of the last example that failed.
        seen: how often each thing happened, over all examples.
    """

    world = World()
    last_story: tuple[str, ...] = ()
    seen: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.engine = self.world.host()
        self.names = 0
        self.prompts: list[tuple[int, int]] = []

    def apply(self, operation: Operation) -> None:
        """Carry out an operation.

        Raises:
            Broken: something does not hold; the story goes with it.
        """
        try:
            self.engine.apply(operation)
        except Broken as broken:
            lines = story(self.engine.trail, broken)
            type(self).last_story = tuple(lines)
            for line in lines:
                note(line)
            raise

    def running(self, number: int) -> int:
        """One of the running requests."""
        names = sorted(self.engine.where)
        return names[number % len(names)]

    @property
    def block(self) -> int:
        """Tokens of a block."""
        return self.world.settings.config.block_size

    def upto(self) -> st.SearchStrategy[int]:
        """Ends of chunks: often of a block, where checkpoints are taken."""
        block = self.block
        return st.one_of(st.sampled_from([block, 2 * block]), lengths(block, 4 * block))

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        """The first request."""
        self.admit(data)

    @rule(data=st.data())
    def admit(self, data: st.DataObject) -> None:
        """A request with a prefix that others may share."""
        self.names += 1
        shared = data.draw(lengths(self.block, 3 * self.block), label="shared")
        own = data.draw(seldom_low(0 if shared else 1, 2 * self.world.settings.config.sliding_window), label="own")
        answer = data.draw(seldom_low(1, 8), label="answer")
        family = data.draw(st.integers(0, 1), label="family")
        if shared >= self.block:
            self.prompts.append((family, shared))
        self.apply(Admit(self.names, family, shared, own, answer))

    @precondition(lambda self: self.prompts)
    @rule(number=st.integers(0, 3), more=st.integers(-1, 1), own=st.integers(1, 3))
    def admit_again(self, number: int, more: int, own: int) -> None:
        """A request whose prompt begins as an earlier one's, which has a checkpoint by then."""
        family, shared = self.prompts[number % len(self.prompts)]
        for name in sorted(self.engine.where):
            self.apply(Prefill(((name, shared // self.block * self.block),)))
        self.names += 1
        self.apply(Admit(self.names, family, max(shared + more, 0), own, 1))

    @precondition(lambda self: self.engine.where)
    @rule(data=st.data())
    def prefill(self, data: st.DataObject) -> None:
        """Chunks of some requests."""
        picked = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True), label="requests")
        parts = {self.running(number): data.draw(self.upto()) for number in picked}
        self.apply(Prefill(tuple(parts.items()), data.draw(st.integers(1, 2), label="microbatches")))

    @precondition(lambda self: self.engine.where)
    @rule(data=st.data())
    def decode(self, data: st.DataObject) -> None:
        """Last tokens and drafts of some requests, which have their prompts by then."""
        drafts = self.world.settings.config.draft_tokens
        picked = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True), label="requests")
        names = list(dict.fromkeys(self.running(number) for number in picked))
        behind = tuple((name, int(at[0].known[at[1]])) for name in names if (at := self._behind(name)) is not None)
        if behind:
            self.apply(Prefill(behind))
        parts = tuple((n, data.draw(st.integers(0, drafts)), data.draw(st.integers(0, drafts))) for n in names)
        padding = data.draw(seldom_low(0, 3), label="padding")
        self.apply(Decode(parts, padding, data.draw(st.integers(1, 2), label="microbatches")))

    def _behind(self, name: int) -> tuple[Site, int] | None:
        """Where a request runs whose prompt is not computed yet."""
        site, group = self.engine.where[name]
        behind = site.done[group] < max(site.known[group] - 1, 1)
        return (site, group) if behind else None

    @precondition(lambda self: self.engine.where)
    @rule(number=st.integers(0, 3))
    def finish(self, number: int) -> None:
        """A request ends, complete or not."""
        self.apply(Finish(self.running(number)))

    @precondition(lambda self: self.engine.where)
    @rule(number=st.integers(0, 3), again=st.booleans())
    def preempt(self, number: int, again: bool) -> None:
        """A request's slot is taken."""
        self.apply(Preempt(self.running(number), "recompute" if again else "checkpoint"))

    @precondition(lambda self: self.engine.parked)
    @rule(number=st.integers(0, 3))
    def resume(self, number: int) -> None:
        """A preempted request runs again."""
        names = sorted(self.engine.parked)
        self.apply(Resume(names[number % len(names)]))

    @precondition(lambda self: self.engine.where)
    @rule(number=st.integers(0, 3), answer=st.integers(1, 4))
    def fork(self, number: int, answer: int) -> None:
        """A request goes on twice."""
        self.names += 1
        self.apply(Fork(self.running(number), self.names, answer))

    @rule(blocks=st.integers(1, 4))
    def evict(self, blocks: int) -> None:
        """Idle cached blocks go."""
        self.apply(Evict(blocks))

    @rule(slots=st.integers(0, 5))
    def move_boundary(self, slots: int) -> None:
        """More slots and fewer blocks, or the other way round."""
        self.apply(Boundary(slots))

    @precondition(lambda self: self.engine.where)
    @rule(number=st.integers(0, 3))
    def transfer(self, number: int) -> None:
        """A request moves to the other pool."""
        self.apply(Transfer(self.running(number)))

    @invariant()
    def books_agree(self) -> None:
        """What the pool counts as taken is what the memory has owners of."""
        for site in self.engine.sites:
            slots = int((site.memory.slot_owner != -1).sum())
            assert slots == len(site.running) == site.pool.slot_limit - site.pool.free_slots
            blocks = int((site.memory.block_owner != -1).sum())
            assert blocks == len(site.pool.references) == site.pool.block_limit - site.pool.free_blocks

    def teardown(self) -> None:
        """All requests finish, and nothing is left."""
        if self.engine.failed is None:
            self.apply(Drain())
        type(self).seen.update(self.engine.events)


def machine(world: World) -> type[Any]:
    """The state machine of some pools."""
    return type("LifetimesOf", (Lifetimes,), {"world": world, "seen": Counter()})
