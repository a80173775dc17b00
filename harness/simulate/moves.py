"""What a host does to a running request: preemption, forks, moves to another pool, and of the boundary."""

from __future__ import annotations

from kvproof.harness.simulate.forwards import Forwards
from kvproof.harness.simulate.host import Parked
from kvproof.harness.simulate.operations import Boundary, Fork, Preempt, Resume, Transfer
from kvproof.harness.simulate.site import Site


class Moves(Forwards):
    """Preempting, resuming, forking, transferring, moving the boundary."""

    def preempt(self, op: Preempt) -> bool:
        """Take a running request's slot away."""
        if op.name in self.parked and op.how == "recompute":
            return self.demote(self.parked[op.name])
        if op.name not in self.where:
            return False
        site, group = self.where[op.name]
        parked = Parked(site.number, int(site.truth_rows[group]), int(site.known[group]), int(site.goal[group]))
        if op.how == "checkpoint":
            parked.done = int(site.done[group])
            parked.blocks = [int(block) for block in site.tables[group, : int(site.held[group])]]
            parked.image = site.memory.new_image()
            site.executor.checkpoint(site.memory, int(site.slots[group]), parked.image)
            self.release_slot(site, group)
        else:
            self.leave(site, group)
        self.parked[op.name] = parked
        self.note(f"preempted, {op.how}")
        return True

    def demote(self, parked: Parked) -> bool:
        """A preempted request gives back what it kept, and is to be computed again."""
        if parked.image is None:
            return False
        site = self.sites[parked.site]
        for block in parked.blocks:
            self.release_block(site, block)
        site.memory.drop_image(parked.image)
        parked.blocks, parked.image, parked.done = [], None, 0
        return True

    def resume(self, op: Resume) -> bool:
        """Let a preempted request run again, where it was or from its longest cached prefix."""
        parked = self.parked.get(op.name)
        if parked is None:
            return False
        site = self.sites[parked.site]
        if parked.image is None:
            group = self.begin(site, op.name, parked.truth_row, parked.known, parked.goal)
            if group is not None:
                del self.parked[op.name]
            return group is not None
        group = site.pool.take_group()
        if group is None:
            return False
        self.take_slot(site, group, op.name)
        self.seat(site, group, op.name, parked.truth_row, parked.known, parked.goal)
        self.rejoin(site, group, parked)
        del self.parked[op.name]
        return True

    def rejoin(self, site: Site, group: int, parked: Parked) -> None:
        """Give a request back what it had when it was preempted."""
        site.done[group] = parked.done
        site.held[group] = len(parked.blocks)
        site.tables[group, : len(parked.blocks)] = parked.blocks
        self.rehash(site, group)
        assert parked.image is not None
        self.restore(site, group, site.memory.image(parked.image))
        site.memory.drop_image(parked.image)

    def fork(self, op: Fork) -> bool:
        """A child that goes on from its parent's last token: full blocks shared, open block and slot copied."""
        if op.name not in self.where or self.known_name(op.child) or op.answer < 1:
            return False
        site, parent = self.where[op.name]
        known, full = int(site.known[parent]), int(site.done[parent]) // site.places.block
        room = len(self.where) + len(self.parked) < self.most_requests - 2
        if not room or known + op.answer > self.size.positions:
            return False
        group = site.pool.take_group()
        if group is None:
            return False
        self.take_slot(site, group, op.child)
        row = self.truth.fork(int(site.truth_rows[parent]), op.child, known)
        self.seat(site, group, op.child, row, known, known + op.answer)
        for column in range(full):
            self.share(site, group, column, int(site.tables[parent, column]))
        open_rows = int(site.done[parent]) % site.places.block
        if open_rows and not self.copy_open_block(site, parent, group):
            self.leave(site, group)
            self.truth.end(row)
            return False
        site.done[group] = site.done[parent]
        self.rehash(site, group)
        self.copy_slot(site, parent, group)
        self.note("forked")
        return True

    def share(self, site: Site, group: int, column: int, block: int) -> None:
        """A block that another request has too."""
        site.pool.retain(block)
        site.memory.share_block(block)
        site.tables[group, column] = block
        site.held[group] = column + 1

    def copy_open_block(self, site: Site, parent: int, group: int) -> bool:
        """A copy of the parent's open block for the child. Whether there was a block for it."""
        if not self.take_block(site, group):
            return False
        column = int(site.held[group]) - 1
        source, target = int(site.tables[parent, column]), int(site.tables[group, column])
        site.executor.copy_blocks(site.memory, site.memory, [source], [target])
        return True

    def copy_slot(self, site: Site, parent: int, group: int) -> None:
        """The parent's window and state for the child."""
        site.executor.copy_slot(site.memory, int(site.slots[parent]), int(site.slots[group]))

    def move_boundary(self, op: Boundary) -> bool:
        """Move the boundary between blocks and slots; idle cached blocks that would go are dropped."""
        site = self.sites[op.site % 2]
        if not 0 <= op.slots <= int(site.places.space.held_slots):
            return False
        beyond = self.blocks_beyond(site, op.slots)
        for key in site.cache.by_age():
            entry = site.cache.get(key)
            assert entry is not None
            if entry.block >= beyond and self.idle(site, entry.block):
                self.forget(site, key)
        before = site.pool.slot_limit
        moved = site.pool.move_boundary(op.slots)
        if moved and op.slots != before:
            self.note("boundary grew" if op.slots > before else "boundary shrank")
        return moved

    def blocks_beyond(self, site: Site, slots: int) -> int:
        """First block that there is no room for beside so many slots."""
        space = site.places.space
        return (space.held_slots - slots) * space.slot_rows // site.places.envelope

    def transfer(self, op: Transfer) -> bool:
        """Move a request to the other pool, of another size: its slot by a checkpoint, its blocks one by one."""
        if op.name not in self.where:
            return False
        source, old = self.where[op.name]
        target = self.sites[1 - source.number]
        held = int(source.held[old])
        if target.pool.free_blocks < held:
            self.evict_blocks(target, held - target.pool.free_blocks)
        if target.pool.free_blocks < held:
            return False
        group = target.pool.take_group()
        if group is None:
            return False
        self.take_slot(target, group, op.name)
        self.seat(target, group, op.name, *(int(a[old]) for a in (source.truth_rows, source.known, source.goal)))
        for _ in range(held):
            self.take_block(target, group)
        self.carry(source, old, target, group)
        target.done[group] = source.done[old]
        self.rehash(target, group)
        self.leave(source, old)
        self.where[op.name] = (target, group)
        self.note("transferred")
        return True

    def carry(self, source: Site, old: int, target: Site, group: int) -> None:
        """A request's rows from one pool to the other."""
        held = int(source.held[old])
        blocks = [int(block) for block in source.tables[old, :held]]
        copies = [int(block) for block in target.tables[group, :held]]
        source.executor.copy_blocks(source.memory, target.memory, blocks, copies)
        image = source.memory.new_image()
        source.executor.checkpoint(source.memory, int(source.slots[old]), image)
        self.restore(target, group, source.memory.image(image))
        source.memory.drop_image(image)
