"""The serving host under simulation: it carries out operations with a pool, a prefix cache and an executor.

What it does is what production hosts do; whether its rows are right is not its own to judge but the reference
memory's. Each operation of the host is a method of its own, so that a test can plant a fault in one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvproof.harness.simulate.broken import Broken
from kvproof.harness.simulate.moves import Moves
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
from kvproof.harness.simulate.places import Settings
from kvproof.harness.simulate.site import Site, Size
from kvproof.models.pool import most_blocks


class Engine(Moves):
    """Carries out operations; arguments as of :class:`Host`."""

    def __init__(
        self, settings: Settings, size: Size, other: Size | None = None, parts: dict[str, Any] | None = None
    ) -> None:
        super().__init__(settings, size, other, parts)
        self.trail: list[Operation] = []
        self.failed: Operation | None = None
        self._handlers: dict[type[Any], Callable[[Any], bool]] = {
            Admit: self.admit,
            Prefill: self.prefill,
            Decode: self.decode,
            Finish: self.finish,
            Preempt: self.preempt,
            Resume: self.resume,
            Fork: self.fork,
            Evict: self.evict,
            Boundary: self.move_boundary,
            Transfer: self.transfer,
            Drain: self.drain,
        }

    def apply(self, operation: Operation) -> bool:
        """Carry out an operation. Whether it did anything.

        Raises:
            Broken: something does not hold.
        """
        self.step += 1
        self.trail.append(operation)
        for site in self.sites:
            site.memory.step = self.step
        try:
            return self._handlers[type(operation)](operation)
        except Broken:
            self.failed = self.failed or operation
            raise
        except (KeyError, IndexError) as error:
            self.failed = self.failed or operation
            raise Broken("bookkeeping", f"{type(operation).__name__}: {error!r}") from error
        except ValueError as error:
            self.failed = self.failed or operation
            raise Broken("bookkeeping", str(error)) from error

    # ---- beginning and ending -------------------------------------------

    def admit(self, op: Admit) -> bool:
        """Begin a request, at the end of the longest cached prefix."""
        site = self.sites[op.site % 2]
        total = op.shared + op.own + op.answer
        if self.known_name(op.name) or min(op.own, op.shared) < 0 or op.shared + op.own < 1 or op.answer < 1:
            return False
        if total > self.size.positions or len(self.where) + len(self.parked) >= self.most_requests - 2:
            return False
        row = self.truth.begin(op.name, op.family, op.shared)
        group = self.begin(site, op.name, row, op.shared + op.own, total)
        if group is None:
            self.truth.end(row)
        return group is not None

    def finish(self, op: Finish) -> bool:
        """End a request: its blocks and its slot go back."""
        if op.name in self.parked:
            self.discard(op.name)
            return True
        if op.name not in self.where:
            return False
        site, group = self.where[op.name]
        row = int(site.truth_rows[group])
        self.note("finished" if site.known[group] >= site.goal[group] else "aborted")
        self.leave(site, group)
        self.truth.end(row)
        self.ended.add(op.name)
        return True

    def discard(self, name: int) -> None:
        """End a preempted request."""
        parked = self.parked.pop(name)
        site = self.sites[parked.site]
        for block in parked.blocks:
            self.release_block(site, block)
        if parked.image is not None:
            site.memory.drop_image(parked.image)
        self.truth.end(parked.truth_row)
        self.ended.add(name)

    def evict(self, op: Evict) -> bool:
        """Drop idle cached blocks."""
        return self.evict_blocks(self.sites[op.site % 2], op.blocks) > 0

    def drain(self, op: Drain) -> bool:
        """Let every request finish, empty the prefix cache, and see that nothing is left.

        Raises:
            Broken: a request does not finish ("liveness"), or something is still taken ("leak").
        """
        del op
        nearest, patience = self.left_to_do(), 0
        while self.where or self.parked:
            if not self.drain_step():
                waiting = sorted([*self.where, *self.parked])
                raise Broken("liveness", f"requests {waiting} do not get on, though nothing else runs")
            left = self.left_to_do()
            patience = 0 if left < nearest else patience + 1
            nearest = min(left, nearest)
            if patience > 4 * self.most_requests:
                raise Broken("liveness", f"requests {sorted([*self.where, *self.parked])} do not finish")
        for site in self.sites:
            self.evict_blocks(site, len(site.cache))
            self.check_empty(site)
        return True

    def left_to_do(self) -> int:
        """Tokens that are still to be generated, and requests that are still to end. Preemption undoes neither."""
        running = sum(int(site.goal[group] - site.known[group]) for site, group in self.where.values())
        parked = sum(request.goal - request.known for request in self.parked.values())
        return running + parked + len(self.where) + len(self.parked)

    def drain_step(self) -> bool:
        """One round of draining. Whether anything got on."""
        got_on = False
        for name, (site, group) in list(self.where.items()):
            if site.known[group] >= site.goal[group]:
                got_on |= self.apply(Finish(name))
        if not self.starved:
            for name in sorted(self.parked):
                got_on |= self.apply(Resume(name))
        chunks, tokens = list[tuple[int, int]](), list[tuple[int, int, int]]()
        for name in sorted(self.where):
            site, group = self.where[name]
            if site.done[group] < max(site.known[group] - 1, 1):
                chunks.append((name, int(site.known[group])))
            elif site.done[group] < site.known[group]:
                tokens.append((name, 0, 0))
        self.starved.clear()
        got_on |= bool(chunks) and self.apply(Prefill(tuple(chunks)))
        got_on |= bool(tokens) and self.apply(Decode(tuple(tokens)))
        for site in self.sites:
            if site.number in self.starved:
                got_on |= self.give_way(site)
        if not got_on:
            restored = [self.restore_boundary(site) for site in self.sites]
            got_on = any(restored)
        return got_on

    def give_way(self, site: Site) -> bool:
        """Take blocks from the last one begun for those that lack some; a parked one first. Whether any went."""
        for name in sorted(self.parked, reverse=True):
            if self.parked[name].site == site.number and self.parked[name].blocks:
                return self.apply(Preempt(name, "recompute"))
        running = [name for name, at in self.where.items() if at[0] is site]
        return len(running) > 1 and self.apply(Preempt(max(running), "recompute"))

    def restore_boundary(self, site: Site) -> bool:
        """Move the boundary back to where it was at first. Whether that changed anything."""
        before = site.pool.slot_limit
        return before != site.size.slots and self.apply(Boundary(site.size.slots, site.number))

    def check_empty(self, site: Site) -> None:
        """Every block, slot, reference and image is free."""
        pool, memory = site.pool, site.memory
        left = {
            "blocks that the pool has lost": max(most_blocks(pool.space, pool.slot_limit) - pool.block_limit, 0),
            "blocks": pool.block_limit - pool.free_blocks,
            "slots": pool.slot_limit - pool.free_slots,
            "references": len(pool.references),
            "cached blocks": len(site.cache),
            "images": len(memory.images),
            "blocks that the memory has an owner of": int((memory.block_owner != -1).sum()),
            "slots that the memory has an owner of": int((memory.slot_owner != -1).sum()),
        }
        taken = [f"{count} {what}" for what, count in left.items() if count]
        if taken:
            raise Broken("leak", f"after all requests of pool {site.number} ended: {', '.join(taken)}")
        if self.truth.live and site.number:
            raise Broken("leak", f"{self.truth.live} requests are still known")
