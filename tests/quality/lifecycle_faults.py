"""Faults of whole request lifetimes, each planted in one method of the pool, the host or the executor.

Found by going through every operation and asking what could be done too early, too late, twice, to the neighbour,
or not at all. Run as a program, this states the minima and their table in the documents anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kvproof.harness.simulate.engine import Engine
from kvproof.harness.simulate.executor import SENTINEL, Executor
from kvproof.harness.simulate.memory import copy_spans
from kvproof.harness.simulate.operations import schedule_json
from kvproof.harness.simulate.places import Settings
from kvproof.harness.simulate.schedule import SMALL, Failure, World, find
from kvproof.harness.simulate.shrink import shrink
from kvproof.harness.simulate.stamps import GARBAGE
from kvproof.models.pool import ElasticPool, PrefixCache, Span, chain, most_blocks
from kvproof.reports.store import write_atomically


@dataclass(frozen=True)
class Fault:
    """A planted fault.

    Attributes:
        field: which fault of the field it is an instance of; empty for those of this list alone.
        what: in words.
        world: pools with it.
    """

    field: str
    what: str
    world: World


FAULTS: dict[str, Fault] = {}


def plant(name: str, what: str, *, field: str = "", settings: Settings | None = None) -> Callable[[type], type]:
    """Enter a class with a fault: an engine, an executor, a pool or a prefix cache."""

    def add(cls: type) -> type:
        options: dict[str, Any] = {}
        if issubclass(cls, Engine):
            options["engine"] = cls
        else:
            part = next(
                key
                for key, base in (("executor", Executor), ("pool", ElasticPool), ("cache", PrefixCache))
                if issubclass(cls, base)
            )
            options["parts"] = {part: cls}
        if settings is not None:
            options["settings"] = settings
        FAULTS[name] = Fault(field, what, World(**options))
        return cls

    return add


# ---- the executor: windows --------------------------------------------------


@plant(
    "ring of W",
    "the writer of window rows takes positions modulo W, the reader modulo W + k",
    field="F06",
)
class _RingOfW(Executor):
    def written_place(self, position: Any) -> Any:
        return position % (self.places.ring - self.places.drafts)


@plant("stride of a slot", "the reader takes a slot to be one row longer than the writer does", field="F06")
class _SlotStride(Executor):
    reading = False

    def read_windows(self, memory: Any, batch: Any) -> None:
        self.reading = True
        super().read_windows(memory, batch)
        self.reading = False

    def slot_base(self, batch: Any, sequence: Any) -> Any:
        base = super().slot_base(batch, sequence)
        return base + batch.slots[sequence] if self.reading else base


@plant("padded tokens keep their ids", "a padded replay writes through the ids of the batch before", field="F09")
class _StalePadding(Executor):
    def mark_padding(self, size: int, live: int) -> None:
        self.staged.stamps[size:live] = GARBAGE


@plant("grid of the capture", "a replay launches as many tokens as the capture had", field="F25")
class _CapturedGrid(Executor):
    captured: int | None = None

    def launched(self, size: int, padding: int) -> int:
        live = super().launched(size, padding)
        self.captured = live if self.captured is None else self.captured
        return self.captured


@plant("slots of the capture", "a replay uses the slots that the capture had", field="F25")
class _CapturedSlots(Executor):
    captured = False

    def stage(self, batch: Any) -> None:
        old = self.staged.slots.copy()
        super().stage(batch)
        if self.captured:
            self.staged.slots[: len(old)] = np.where(old == SENTINEL, self.staged.slots[: len(old)], old)
        self.captured = True


@plant("whole chunk written", "all tokens of a chunk longer than the ring are written", field="F15")
class _WholeChunk(Executor):
    def in_tail(self, batch: Any) -> Any:
        return np.ones(batch.size, bool)


@plant(
    "chunk written before it reads",
    "a chunk's tail goes to the ring before the chunk has read it",
    field="F23",
)
class _WriteFirst(Executor):
    def attend(self, memory: Any, batch: Any) -> None:
        if batch.kind == "prefill":
            self.write_windows(memory, batch)
        super().attend(memory, batch)


@plant(
    "token reads before its row is written",
    "a decode token attends before its own row is there",
    field="F23",
)
class _ReadFirst(Executor):
    def run(self, memory: Any, batch: Any) -> None:
        if batch.kind == "decode":
            self.stage(batch)
            self.attend(memory, batch)
        super().run(memory, batch)


@plant("window of W + 1", "a query reads one position more than its window")
class _LongWindow(Executor):
    def window_low(self, batch: Any) -> Any:
        return np.maximum(batch.starts - self.places.window, 0)


@plant("window of W - 1", "a query leaves out the oldest position of its window")
class _ShortWindow(Executor):
    def window_low(self, batch: Any) -> Any:
        return super().window_low(batch) + (batch.starts >= self.places.window)


@plant("last group overlooked", "a query does not see the group that it completes")
class _LastGroup(Executor):
    def visible(self, batch: Any, ratio: int) -> Any:
        return (batch.ends - 1) // ratio


@plant("draft window of W + 1", "the draft layers read one position more than their window")
class _LongDraftWindow(Executor):
    def draft_read(self) -> int:
        return self.places.window + 1


@plant(
    "draft window not written while verifying",
    "the draft layers' window is written by prefill alone",
)
class _NoDraftWindow(Executor):
    def write_draft_window(self, memory: Any, batch: Any) -> None:
        if batch.kind == "prefill":
            super().write_draft_window(memory, batch)


# ---- the executor: compressed rows and state --------------------------------


@plant("open group counted", "an entry is taken as visible while its group is open", field="F08")
class _OpenGroup(Executor):
    def visible(self, batch: Any, ratio: int) -> Any:
        return (batch.ends - 1) // ratio + 1


@plant(
    "first block for every column",
    "every entry is looked up in the first block of the table",
    field="F11",
)
class _FirstBlock(Executor):
    def entry_base(self, batch: Any, sequence: Any, entry: Any, ratio: int) -> Any:
        _, place = super().entry_base(batch, sequence, entry, ratio)
        return batch.tables[sequence, 0] * self.places.envelope, place


@plant("rows of a block assumed to be one", "each entry is placed at the first row of its block", field="F04")
class _OneRow(Executor):
    def entry_base(self, batch: Any, sequence: Any, entry: Any, ratio: int) -> Any:
        base, place = super().entry_base(batch, sequence, entry, ratio)
        return base, np.zeros_like(place)


@plant("masked read of row 0", "a sentinel is read as row 0 and multiplied by 0", field="F18")
class _MaskedRow(Executor):
    def read_sentinels(self, memory: Any, batch: Any, ratio: int) -> None:
        memory.read_masked("entries", 0, batch.words(0))


@plant(
    "positions before the first are pooled",
    "the first entry of a request pools what the last owner left",
    field="F16",
)
class _Inherited(Executor):
    def pooled_from(self, last: Any, ratio: int) -> Any:
        return last - self.places.pooled[ratio] + 1


@plant("plan of the last group alone", "the write plan keeps the rows of one group", field="F19")
class _ShortPlan(Executor):
    def plan(self, batch: Any, ratio: int) -> Any:
        return batch.position >= (batch.ends - ratio)[batch.sequence]


@plant(
    "state written before it is read",
    "the state ring is updated before the compression that reads it",
    field="F23",
)
class _StateFirst(Executor):
    def pool_groups(self, memory: Any, batch: Any, ratio: int) -> None:
        self.write_state(memory, batch, ratio)
        super().pool_groups(memory, batch, ratio)


@plant(
    "state ring of K",
    "the state ring has no room for drafts",
    field="F06",
    settings=Settings(SMALL, state_slack=((4, 0), (128, 0))),
)
class _ShortState(Executor):
    pass


@plant("entry written with its group's first token", "an entry is written when its group begins")
class _EarlyEntry(Executor):
    def completes(self, position: Any, ratio: int) -> Any:
        return position % ratio == 0


@plant("entry of a rejected draft kept", "an entry completed by a draft is not written again")
class _OnceOnly(Executor):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.written: set[tuple[int, int, int]] = set()

    def completes(self, position: Any, ratio: int) -> Any:
        done = super().completes(position, ratio)
        for at in np.flatnonzero(done):
            key = (int(self.batch.names[self.batch.sequence[at]]), ratio, int(position[at]))
            done[at] = key not in self.written
            self.written.add(key)
        return done

    def compress(self, memory: Any, batch: Any) -> None:
        self.batch = batch
        super().compress(memory, batch)


# ---- copies -----------------------------------------------------------------


@plant("packed otherwise than unpacked", "blocks travel with their rows in another order", field="F20")
class _Packed(Executor):
    def copy_blocks(self, source: Any, target: Any, blocks: Any, copies: Any) -> None:
        rows = self.places.envelope
        if source is target:
            super().copy_blocks(source, target, blocks, copies)
        else:  # the writer puts its rows last to first
            spans = [
                Span(a * rows + i, b * rows + rows - 1 - i, 1)
                for a, b in zip(blocks, copies, strict=True)
                for i in range(rows)
            ]
            copy_spans(source, target, tuple(spans))


@plant("checkpoint without state", "a checkpoint holds the windows but not the compressor state", field="F10")
class _NoState(Executor):
    def restore(self, memory: Any, image: Any, slot: int) -> None:
        space = memory.places.space
        start, stop = space.slot_span(slot)
        arena = space.arena_rows
        self.copy(image, memory, (Span(arena, start + arena, stop - start - arena),))


@plant("checkpoint to the neighbour", "a checkpoint is restored to the next slot")
class _Neighbour(Executor):
    def restore(self, memory: Any, image: Any, slot: int) -> None:
        space = memory.places.space
        super().restore(memory, image, slot - 1 if slot > space.slot_origin else slot + 1)


@plant("copy of a slot cut short", "the last rows of a slot are not copied")
class _ShortCopy(Executor):
    def copy(self, source: Any, target: Any, spans: Any) -> None:
        super().copy(source, target, tuple(Span(s.source, s.target, s.rows // 2) for s in spans))


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
        tokens = np.frombuffer(self.truth.tokens(row, number * block, (number + 1) * block), np.int64)
        return chain(b"", (tokens - (number * block << 12)).tobytes())


# ---- the host: preemption, forks, moves -------------------------------------


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


# ---- the stated minima ------------------------------------------------------

MINIMA = Path(__file__).parents[1] / "data" / "lifetimes" / "minimal.json"
TABLE = Path(__file__).parents[2] / "docs" / "lifetimes.md"
MARKS = ("<!-- faults -->\n", "<!-- end of faults -->\n")


def smallest(fault: Fault) -> Failure:
    """The fault found by drawn schedules, and shrunk.

    Raises:
        LookupError: not found.
    """
    found = find(fault.world)
    if found is None:
        raise LookupError(fault.what)
    return shrink(fault.world, found)


def minima() -> dict[str, dict[str, Any]]:
    """The stated minimum of each fault: the check that finds it, and the schedule."""
    return json.loads(MINIMA.read_text(encoding="utf-8"))


def table(stated: dict[str, dict[str, Any]]) -> str:
    """The table of the documents."""
    lines = ["| fault | what is planted | found as | steps |", "| --- | --- | --- | --- |"]
    for name, fault in FAULTS.items():
        given = stated[name]
        title = f"{name} ({fault.field})" if fault.field else name
        lines.append(f"| {title} | {fault.what} | {given['check']} | {len(given['schedule'])} |")
    return "\n".join(lines) + "\n"


def state() -> None:
    """Write the minima and the table anew."""
    stated: dict[str, dict[str, Any]] = {}
    for name, fault in FAULTS.items():
        found = smallest(fault)
        stated[name] = {"check": found.broken.check, "schedule": schedule_json(found.schedule)}
        print(f"{name}: {found.broken.check}, {len(found.schedule)} operations")
    write_atomically(MINIMA, json.dumps(stated, indent=1) + "\n")
    if TABLE.exists():
        before, _, rest = TABLE.read_text(encoding="utf-8").partition(MARKS[0])
        write_atomically(TABLE, before + MARKS[0] + table(stated) + MARKS[1] + rest.partition(MARKS[1])[2])


if __name__ == "__main__":
    state()
