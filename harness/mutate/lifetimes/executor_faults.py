"""Faults of the executor: of what a forward stages, reads, writes and copies."""

from __future__ import annotations

from typing import Any

import numpy as np

from kvproof.harness.mutate.lifetimes.registry import plant
from kvproof.harness.simulate.executor import SENTINEL, Executor
from kvproof.harness.simulate.memory import copy_spans
from kvproof.harness.simulate.places import Settings
from kvproof.harness.simulate.schedule import SMALL
from kvproof.harness.simulate.stamps import GARBAGE
from kvproof.models.pool import Span

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


@plant("draft window of W - 1", "the draft layers leave out the oldest position of their window")
class _ShortDraftWindow(Executor):
    def draft_read(self) -> int:
        return self.places.window - 1


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


@plant("entry of its own group alone", "an entry does not pool the group before its own, which it overlaps")
class _NoOverlap(Executor):
    def pooled_from(self, last: Any, ratio: int) -> Any:
        return np.maximum(last - ratio + 1, 0)


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
