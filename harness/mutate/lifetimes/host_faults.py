"""Faults of the pool and of the host: of what is taken, shared, given back, cached, preempted and moved."""

from __future__ import annotations

from typing import Any

import numpy as np

from kvproof.harness.mutate.lifetimes.registry import plant
from kvproof.harness.simulate.engine import Engine
from kvproof.models.pool import ROOT, ElasticPool, PrefixCache, chain, most_blocks

# ---- the pool ---------------------------------------------------------------


@plant("block given twice", "a block taken stays in the list of free ones")
class _BlockTwice(ElasticPool):
    def take_block(self) -> int | None:
        block = super().take_block()
        if block is not None:
            self._blocks.add([block])
        return block


@plant("slot given twice", "a slot taken stays in the list of free ones")
class _SlotTwice(ElasticPool):
    def take_group(self) -> int | None:
        group = super().take_group()
        if group is not None:
            self._groups.add([group])
        return group

    def release_group(self, group: int) -> None:
        if group not in self._groups:
            super().release_group(group)


@plant(
    "one block too many",
    "the boundary leaves room for a block that the lowest slot overlaps",
    field="F21",
)
class _OneMore(ElasticPool):
    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._blocks.add([self.block_limit])
        self.block_limit += 1


@plant("block lost to the boundary", "a move of the boundary leaves one block fewer than there is room for")
class _BlockLost(ElasticPool):
    def _settle(self, blocks: int, slots: int) -> bool:
        return super()._settle(max(blocks - 1, 0), slots)


@plant("boundary over blocks in use", "the boundary moves though blocks beyond it are taken")
class _Overrun(ElasticPool):
    def move_boundary(self, slots: int) -> bool:
        if any(group not in self._groups for group in range(slots, self.slot_limit)):
            return False
        return self._settle(most_blocks(self.space, slots), slots)


@plant("boundary over slots in use", "the boundary moves though slots beyond it are taken")
class _OverrunSlots(ElasticPool):
    def move_boundary(self, slots: int) -> bool:
        blocks = most_blocks(self.space, slots)
        if any(block not in self._blocks for block in range(blocks, self.block_limit)):
            return False
        return self._settle(blocks, slots)


@plant("hit beyond its checkpoint", "a hit counts cached blocks behind the last checkpoint", field="F10")
class _LongHit(PrefixCache):
    def hit(self, keys: Any) -> Any:
        found = super().hit(keys)
        while found and len(found) < len(keys):
            entry = self.get(keys[len(found)])
            if entry is None:
                break
            found.append(type(entry)(entry.block, entry.image or found[-1].image))
        return found


# ---- the host: beginning and ending -----------------------------------------


@plant("prefix without its window", "a request resumes a cached prefix without its checkpoint", field="F10")
class _NoRestore(Engine):
    def restore(self, site: Any, group: int, image: Any) -> None:
        pass


@plant("inherited length", "a request begins at the length of its slot's last owner", field="F16")
class _InheritedLength(Engine):
    def seat(self, site: Any, group: int, name: int, row: int, known: int, goal: int) -> None:
        done = min(int(site.done[group]), known - 1)
        super().seat(site, group, name, row, known, goal)
        site.done[group] = done


@plant("whole prompt hit", "a hit may cover the last token too, which has to be computed")
class _WholePrompt(Engine):
    def prefix_keys(self, site: Any, group: int) -> Any:
        site.known[group] += 1
        keys = super().prefix_keys(site, group)
        site.known[group] -= 1
        return keys


@plant("shared block without a reference", "a hit does not count a reference to the blocks it shares")
class _NoReference(Engine):
    def reuse_prefix(self, site: Any, group: int) -> None:
        super().reuse_prefix(site, group)
        for column in range(int(site.held[group])):
            site.pool.references[int(site.tables[group, column])] -= 1


@plant("block released twice", "a request's last block is given back twice")
class _ReleasedTwice(Engine):
    def leave(self, site: Any, group: int) -> None:
        last = int(site.tables[group, int(site.held[group]) - 1]) if site.held[group] else None
        super().leave(site, group)
        if last is not None:
            self.release_block(site, last)


@plant("block not released", "a request's open block is not given back")
class _NotReleased(Engine):
    def leave(self, site: Any, group: int) -> None:
        if site.done[group] % site.places.block:
            site.held[group] -= 1
        super().leave(site, group)


@plant("slot not released", "the slot of a finished request is not given back")
class _SlotKept(Engine):
    def release_slot(self, site: Any, group: int) -> None:
        keep = site.pool.release_group
        if site.known[group] >= site.goal[group]:
            site.pool.release_group = lambda group: None
        super().release_slot(site, group)
        site.pool.release_group = keep


@plant(
    "slot released before its copy",
    "a preempted request's slot is given back before its checkpoint is taken",
)
class _EarlyRelease(Engine):
    def preempt(self, op: Any) -> bool:
        if op.name in self.where and op.how == "checkpoint":
            site, group = self.where[op.name]
            site.memory.free_slot(int(site.slots[group]))
            site.memory.grant_slot(int(site.slots[group]), op.name)
        return super().preempt(op)


# ---- the host: forwards -----------------------------------------------------


@plant("budget rounded down", "blocks are tokens // block size", field="F22")
class _Floor(Engine):
    def blocks_needed(self, site: Any, tokens: Any) -> Any:
        return tokens // site.places.block


@plant("rejected drafts taken as accepted", "all tokens of a verify step count as kept", field="F19")
class _NoRollback(Engine):
    def batch(self, site: Any, kind: Any, groups: Any, new: Any, kept: Any, padding: int) -> Any:
        self.new = {int(group): int(count) for group, count in zip(groups, new, strict=True)}
        return super().batch(site, kind, groups, new, kept, padding)

    def account(self, site: Any, kind: Any, groups: Any, kept: Any) -> None:
        if kind == "decode":
            kept = np.array([self.new.get(int(group), int(n)) for group, n in zip(groups, kept, strict=True)])
        super().account(site, kind, groups, kept)


@plant("microbatch of the first", "the second microbatch runs the sequences of the first")
class _FirstMicrobatch(Engine):
    def run(self, site: Any, kind: Any, groups: Any, new: Any, kept: Any, padding: int, part: slice) -> None:
        size = part.stop - part.start
        super().run(site, kind, groups, new, kept, padding, slice(0, size))


@plant("slots in another order", "slots are staged in the order of their groups, the rest in that of the batch")
class _SortedSlots(Engine):
    def batch(self, site: Any, kind: Any, groups: Any, new: Any, kept: Any, padding: int) -> Any:
        batch = super().batch(site, kind, groups, new, kept, padding)
        batch.slots = site.slots[np.sort(groups)]
        return batch


@plant(
    "tables in another order",
    "block tables are staged in the order of groups, the rest in that of the batch",
)
class _SortedTables(Engine):
    def batch(self, site: Any, kind: Any, groups: Any, new: Any, kept: Any, padding: int) -> Any:
        batch = super().batch(site, kind, groups, new, kept, padding)
        batch.tables = site.tables[np.sort(groups)]
        return batch


# ---- the host: prefix cache -------------------------------------------------


@plant("open block offered", "a block is cached with its first token")
class _OpenBlock(Engine):
    def full_blocks(self, site: Any, groups: Any) -> Any:
        return -(-site.done[groups] // site.places.block)


@plant(
    "checkpoint after the block's end",
    "a checkpoint is taken whenever a block was filled, not at its end alone",
)
class _LateCheckpoint(Engine):
    def offer(self, site: Any, group: int, full: int) -> None:
        super().offer(site, group, full)
        self.keep_checkpoint(site, group)


@plant("checkpoint of the neighbour", "a checkpoint is taken of another request's slot")
class _OtherSlot(Engine):
    def keep_checkpoint(self, site: Any, group: int) -> None:
        others = [int(g) for g in site.running if g != group]
        slots = site.slots.copy()
        if others:
            site.slots[group] = slots[others[0]]
        super().keep_checkpoint(site, group)
        site.slots[:] = slots


@plant("eviction of a block in use", "a cached block is evicted though a request has it")
class _EvictUsed(Engine):
    def idle(self, site: Any, block: int) -> bool:
        return True

    def forget(self, site: Any, key: Any) -> None:
        entry = site.cache.get(key)
        site.pool.references[entry.block] = 1
        super().forget(site, key)


@plant("evicted block still found", "an evicted block stays in the prefix cache")
class _StaleKey(Engine):
    def forget(self, site: Any, key: Any) -> None:
        entry = site.cache.get(key)
        super().forget(site, key)
        site.cache.insert(key, entry.block)


@plant("dropped checkpoint still found", "the checkpoint that made room stays in the prefix cache")
class _StaleImage(Engine):
    def drop_oldest_image(self, site: Any) -> None:
        image = next(iter(site.images))
        del site.images[image]
        site.memory.drop_image(image)


@plant("key without its parent", "a block's key is of its own tokens alone, whatever lies before")
class _NoParent(Engine):
    def block_key(self, site: Any, group: int, row: int, number: int) -> Any:
        return self.alone(site, row, number)

    def prefix_keys(self, site: Any, group: int) -> Any:
        full = (int(site.known[group]) - 1) // site.places.block
        return [self.alone(site, int(site.truth_rows[group]), number) for number in range(full)]

    def alone(self, site: Any, row: int, number: int) -> Any:
        block = site.places.block
        return chain(ROOT, self.truth.tokens(row, number * block, (number + 1) * block))


# ---- the host: preemption, forks, moves -------------------------------------


@plant("decode not accounted", "what a decode step has kept does not count, and is computed again and again")
class _NotAccounted(Engine):
    def account(self, site: Any, kind: Any, groups: Any, kept: Any) -> None:
        super().account(site, kind, groups, kept if kind == "prefill" else 0 * kept)


@plant(
    "preempted request ends with its blocks", "a request that ends while preempted does not give its blocks back"
)
class _KeptBlocks(Engine):
    def discard(self, name: int) -> None:
        self.parked[name].blocks = []
        super().discard(name)


@plant("resumed as if all was computed", "a preempted request resumes at its last token, wherever it was")
class _ResumedLate(Engine):
    def rejoin(self, site: Any, group: int, parked: Any) -> None:
        parked.done = parked.known - 1
        super().rejoin(site, group, parked)


@plant(
    "checkpoint dropped before it is used",
    "a preempted request's checkpoint is given back before it is restored",
)
class _DroppedEarly(Engine):
    def rejoin(self, site: Any, group: int, parked: Any) -> None:
        site.memory.drop_image(parked.image)
        super().rejoin(site, group, parked)


@plant("preempted blocks given back", "a request preempted with a checkpoint does not keep its blocks")
class _BlocksLost(Engine):
    def preempt(self, op: Any) -> bool:
        done = super().preempt(op)
        parked = self.parked.get(op.name)
        if done and parked is not None and op.how == "checkpoint":
            for block in parked.blocks:
                self.release_block(self.sites[parked.site], block)
        return done


@plant("fork without its slot", "a fork's window and state are not copied")
class _ForkNoSlot(Engine):
    def copy_slot(self, site: Any, parent: int, group: int) -> None:
        pass


@plant("fork shares its open block", "a fork shares the block that both go on writing")
class _ForkShares(Engine):
    def copy_open_block(self, site: Any, parent: int, group: int) -> bool:
        column = int(site.held[group])
        self.share(site, group, column, int(site.tables[parent, column]))
        return True


@plant("fork copies the wrong way", "a fork's empty slot is copied over its parent's")
class _ForkReversed(Engine):
    def copy_slot(self, site: Any, parent: int, group: int) -> None:
        super().copy_slot(site, group, parent)


@plant("fork without references", "a fork does not count references to the blocks it shares")
class _ForkNoReference(Engine):
    def share(self, site: Any, group: int, column: int, block: int) -> None:
        super().share(site, group, column, block)
        site.pool.references[block] -= 1


@plant("moved with its old table", "a request moved to another pool keeps its block ids")
class _OldTable(Engine):
    def carry(self, source: Any, old: int, target: Any, group: int) -> None:
        super().carry(source, old, target, group)
        target.tables[group] = source.tables[old]


@plant("moved without its blocks", "a request moved to another pool leaves its compressed rows behind")
class _NoBlocks(Engine):
    def carry(self, source: Any, old: int, target: Any, group: int) -> None:
        held, source.held[old] = int(source.held[old]), 0
        super().carry(source, old, target, group)
        source.held[old] = held


@plant("moved but not left", "a request moved to another pool does not give its old slot back")
class _NotLeft(Engine):
    def transfer(self, op: Any) -> bool:
        if op.name not in self.where:
            return False
        site, _ = self.where[op.name]
        keep, site.pool.release_group = site.pool.release_group, lambda group: None
        done = super().transfer(op)
        site.pool.release_group = keep
        return done
