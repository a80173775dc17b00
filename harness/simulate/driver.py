"""A seeded scheduler: what a serving loop does next, drawn, with all that may happen to a request."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kvproof.harness.simulate.broken import Broken
from kvproof.harness.simulate.engine import Engine
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
from kvproof.harness.simulate.site import Site

PATIENCE = 300
"""Rounds in which nothing gets on before that is a finding."""


FEW = 16
"""Requests up to which the two pools take turns evenly."""


@dataclass(frozen=True)
class Workload:
    """What requests come, and how often something happens to them.

    Attributes:
        families: shared prefixes at a time.
        shared: longest shared prefix.
        own: longest part of a prompt that is a request's own.
        answer: longest answer.
        chunk: longest chunk.
        trouble: chance per round of a preemption, a fork, a move of the boundary and so on.
        bucket: graph buckets are multiples of this.
    """

    families: int = 4
    shared: int = 600
    own: int = 200
    answer: int = 160
    chunk: int = 256
    trouble: float = 0.2
    bucket: int = 8


@dataclass
class Driver:
    """Draws operations and carries them out.

    Args:
        engine: where they are carried out.
        rng: source of all choices.
        workload: what is drawn.

    """

    engine: Engine
    rng: np.random.Generator
    workload: Workload = field(default_factory=Workload)
    _next: int = 0
    _moved: int = 0

    def run(self, request_steps: int) -> None:
        """Serve until so many requests have taken part in steps, then drain.

        Raises:
            Broken: something does not hold.
        """
        idle = 0
        while self.engine.request_steps < request_steps:
            before = self.engine.request_steps
            self.round()
            idle = 0 if self.engine.request_steps > before else idle + 1
            if idle > PATIENCE:
                waiting = sorted([*self.engine.where, *self.engine.parked])
                raise Broken("liveness", f"nothing got on in {idle} rounds; requests {waiting} wait")
        self.apply(Drain())

    def apply(self, operation: Operation) -> bool:
        """Carry out an operation; the engine keeps it in its trail."""
        return self.engine.apply(operation)

    def round(self) -> None:
        """One round of the serving loop."""
        engine, rng = self.engine, self.rng
        for site in engine.sites:
            for group in np.flatnonzero((site.names >= 0) & (site.known >= site.goal)):
                self.apply(Finish(int(site.names[group])))
        self.admissions(engine.sites[0])
        if rng.random() < self.workload.trouble:
            self.trouble()
        engine.starved.clear()
        busy = len(engine.sites[0].running) > FEW
        for site in engine.sites:
            # The few requests of the other pool get a step now and then, for a step costs what it costs.
            if site.number and busy and rng.random() < 0.75:
                continue
            self.chunks(site)
            self.tokens(site)
            if site.number in engine.starved:
                self.give_way(site)

    def give_way(self, site: Site) -> None:
        """Somebody lacks a block: now and then any request gives way, else the last one begun."""
        if self.rng.random() < 0.3 and len(site.running):
            name = int(self.rng.choice(site.names[site.running]))
            self.apply(Preempt(name, "recompute" if self.rng.random() < 0.5 else "checkpoint"))
        else:
            self.engine.give_way(site)

    # ---- requests -------------------------------------------------------

    def admissions(self, site: Site) -> None:
        """Preempted requests first, then new ones, while there are slots."""
        engine, rng = self.engine, self.rng
        if engine.starved:
            return
        for name in sorted(engine.parked):
            if rng.random() < 0.5:
                self.apply(Resume(name))
        while site.pool.free_slots and rng.random() < 0.9:
            if not self.apply(self.request(site)):
                break

    def request(self, site: Site) -> Admit:
        """A new request: with a shared prefix that ends around a block's or a group's end, or anywhere."""
        rng, load, block = self.rng, self.workload, site.places.block
        shared = 0
        if rng.random() < 0.7:
            shared = int(rng.integers(0, load.shared + 1))
            if rng.random() < 0.6:
                unit = block if rng.random() < 0.6 else 128
                shared = min(max(shared // unit * unit + int(rng.integers(-1, 2)), 0), load.shared)
        # Now and then a prompt that others have had word for word.
        own = 1 + int(rng.integers(0, load.own)) if rng.random() < 0.8 else int(not shared or rng.random() < 0.5)
        self._next += 1
        # Families come and go, so that cached blocks grow old.
        family = int(rng.integers(0, load.families)) + self._next // 512
        return Admit(self._next, family, shared, own, 1 + int(rng.integers(0, load.answer)))

    def trouble(self) -> None:
        """Something out of the ordinary."""
        engine, rng = self.engine, self.rng
        names = list(engine.where)
        name = int(names[int(rng.integers(len(names)))]) if names else -1
        what = rng.integers(0, 8)
        if what <= 1:
            self.apply(Preempt(name, "checkpoint" if what else "recompute"))
        elif what == 2:
            self._next += 1
            self.apply(Fork(name, self._next, 1 + int(rng.integers(0, self.workload.answer))))
        elif what == 3:
            self.apply(Transfer(name))
        elif what == 4:
            self.apply(Evict(1 + int(rng.integers(0, 2))))
        elif what == 5:
            parked = sorted(engine.parked)
            # A client may leave while its request waits to be resumed.
            self.apply(Finish(parked[0] if parked and engine.step % 2 else name))
        else:
            self.move_boundary()

    def move_boundary(self) -> None:
        """A few slots more or fewer, and now and then back to where it was."""
        site, rng = self.engine.sites[0], self.rng
        change = int(rng.integers(-2, 3))
        slots = site.size.slots if rng.random() < 0.3 else site.pool.slot_limit + change
        self.apply(Boundary(max(slots, 1)))

    # ---- forwards -------------------------------------------------------

    def chunks(self, site: Site) -> bool:
        """A forward of chunks for some of the requests that have tokens to compute."""
        rng, load = self.rng, self.workload
        waiting = np.flatnonzero((site.names >= 0) & (site.done < site.known - 1) | self._fresh(site))
        if not waiting.size:
            return False
        groups = rng.permutation(waiting)[: 1 + int(rng.integers(0, 8))]
        sizes = rng.integers(1, load.chunk + 1, len(groups))
        if rng.random() < 0.3:  # up to an end of a block or a group
            unit = site.places.block if rng.random() < 0.5 else 128
            sizes = np.maximum((site.done[groups] + sizes) // unit * unit - site.done[groups], 1)
        upto = site.done[groups] + sizes
        parts = tuple(zip(site.names[groups].tolist(), upto.tolist(), strict=True))
        return self.apply(Prefill(parts, self._micro()))

    def _fresh(self, site: Site) -> np.ndarray:
        """Requests without any row: one token of prompt is a chunk too."""
        return (site.names >= 0) & (site.done == 0)

    def tokens(self, site: Site) -> bool:
        """Decode forwards for the requests that are ready, most of the time for all of them."""
        rng, drafts = self.rng, site.places.drafts
        ready = (site.names >= 0) & (site.done == site.known - 1) & (site.known < site.goal) & (site.done > 0)
        groups = np.flatnonzero(ready)
        if not groups.size:
            return False
        groups = rng.permutation(groups)
        if rng.random() < 0.2:
            groups = groups[: 1 + int(rng.integers(0, len(groups)))]
        count = len(groups)
        if drafts:
            made = rng.integers(0, drafts + 1, count) if rng.random() < 0.3 else np.full(count, drafts)
            kept = rng.integers(0, drafts + 1, count)
        else:
            made = kept = np.zeros(count, np.int64)
        bucket = self.workload.bucket
        padding = -count % bucket if rng.random() < 0.8 else int(rng.integers(0, bucket))
        parts = tuple(zip(site.names[groups].tolist(), made.tolist(), kept.tolist(), strict=True))
        return self.apply(Decode(parts, padding, self._micro()))

    def _micro(self) -> int:
        return 2 if self.rng.random() < 0.1 else 1
