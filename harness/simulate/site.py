"""One pool with its requests: host bookkeeping, reference memory and executor together."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from kvproof.harness.simulate.executor import Executor
from kvproof.harness.simulate.memory import Memory
from kvproof.harness.simulate.places import Places, Settings
from kvproof.harness.simulate.stamps import Keys
from kvproof.harness.simulate.truth import Truth
from kvproof.models.pool import ROOT, ElasticPool, Key, Order, PrefixCache, in_order


@dataclass(frozen=True)
class Size:
    """How large a simulated pool is, and what it may serve.

    Attributes:
        slots: slots at first, and with them requests at once.
        blocks: blocks beside them.
        positions: positions of a request at most, drafts not counted.
        images: checkpoints that the prefix cache may hold.
        prefix_cache: whether full blocks are shared.
        order: seed of the order in which free blocks and slots are taken; None for lowest first.
    """

    slots: int = 4
    blocks: int = 12
    positions: int = 1024
    images: int = 8
    prefix_cache: bool = True
    order: int | None = None


def permuted(count: int, seed: int | None) -> Order:
    """A fixed random rank of ids, or their own order."""
    if seed is None:
        return in_order
    ranks = np.random.default_rng(seed).permutation(count)
    return lambda number: int(ranks[number])


@dataclass
class Site:
    """One pool. Its requests are numbered by their pool groups.

    Attributes:
        number: 0 for the pool where requests are admitted, 1 for the other.
        pool, cache, memory, executor, places: see there.
        size: how large it is.
        names: [slots] request of each group, or -1.
        truth_rows: [slots] where the truth has it.
        done: [slots] positions whose rows are in the pool.
        known: [slots] tokens that are known: the prompt and what was generated.
        goal: [slots] tokens at which it is complete.
        slots: [slots] physical slot of each group.
        tables: [slots, columns] blocks; -1 behind the last.
        held: [slots] blocks of each.
        hashed: [slots] leading blocks that the prefix cache was offered.
        chains: key of the last of those blocks.
        images: images of the prefix cache, oldest first, with the block keys they belong to.
    """

    number: int
    pool: ElasticPool
    memory: Memory
    executor: Executor
    places: Places
    size: Size
    cache: PrefixCache
    names: Keys = field(init=False)
    truth_rows: Keys = field(init=False)
    done: Keys = field(init=False)
    known: Keys = field(init=False)
    goal: Keys = field(init=False)
    slots: Keys = field(init=False)
    tables: Keys = field(init=False)
    held: Keys = field(init=False)
    hashed: Keys = field(init=False)
    chains: list[Key] = field(init=False)
    images: dict[int, Key] = field(default_factory=dict[int, Key])

    def __post_init__(self) -> None:
        self.memory.pool = self.number
        groups = self.places.space.held_slots
        columns = -(-(self.size.positions + self.places.drafts + 1) // self.places.block)
        for name in ("truth_rows", "done", "known", "goal", "held", "hashed"):
            setattr(self, name, np.zeros(groups, np.int64))
        self.names = np.full(groups, -1, np.int64)
        self.slots = np.array([self.pool.slot_of(group) for group in range(groups)], np.int64)
        self.tables = np.full((groups, columns), -1, np.int64)
        self.chains = [ROOT] * groups

    @property
    def running(self) -> Keys:
        """Groups that have a request."""
        return np.flatnonzero(self.names >= 0)


@functools.lru_cache(maxsize=32)
def places_of(settings: Settings, slots: int, blocks: int) -> Places:
    """Addresses, which every simulation of one layout and size shares."""
    return Places(settings, slots, blocks)


def make_site(
    number: int,
    settings: Settings,
    size: Size,
    truth: Truth,
    topk: int,
    *,
    pool: Callable[..., ElasticPool] = ElasticPool,
    executor: Callable[..., Executor] = Executor,
    memory: Callable[..., Memory] = Memory,
    cache: Callable[[], PrefixCache] = PrefixCache,
) -> Site:
    """A pool of a size. The parts may be stood in for by others, with faults planted or on a device."""
    places = places_of(settings, size.slots, size.blocks)
    held = int(places.space.held_slots)
    return Site(
        number,
        pool(
            places.space,
            size.slots,
            block_order=permuted(places.plane_rows // places.envelope + 1, size.order),
            slot_order=permuted(held, None if size.order is None else size.order + 1),
        ),
        memory(places),
        executor(places, truth, topk),
        places,
        size,
        cache(),
    )
