"""The reference executor: one forward's reads and writes, in the order in which a model makes them.

All queries of a forward meet one state of the memory, and what a row must hold does not depend on who asks. So the
rows that a sequence's queries read together are read once, rather than once a query:

- window: the union of the queries' windows; for a chunk, what lies before it (the rest is this forward's own);
- HCA: every complete group; CSA: every complete entry that an indexer could select, or where there are more than
  ``index_topk`` a run of that many, whose place changes from step to step;
- state: every position from the ring that an entry of this forward pools;
- draft window: the window that ends at the last token kept, read after verification.

Each operation is a method of its own, so that a test can plant a fault in one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvproof.harness.simulate.batch import Batch, needed_low, ranges, require_all
from kvproof.harness.simulate.memory import Image, Memory, copy_spans
from kvproof.harness.simulate.places import Places
from kvproof.harness.simulate.stamps import CONTENT_MASK, GARBAGE, PLACE_SHIFT, Keys
from kvproof.harness.simulate.truth import Truth
from kvproof.models.pool import Span, blocks_to_blocks, image_to_slot, slot_to_image, slot_to_slot
from kvproof.models.row_space import CSA_RATIO

SENTINEL = -1
Mask = npt.NDArray[np.bool_]
Recorder = Callable[[Batch, str, Keys, Keys, Keys], None]
"""Called as ``record(batch, what, sequence, place, found)`` with what was read."""


@dataclass
class Staged:
    """Buffers that live as long as the executor, as captured graphs need them: a batch's tokens and, behind them,
    what earlier batches left.

    Attributes:
        sequence, position, stamps: [room] of each token.
        slots: [room] physical slot of each sequence.
        live: tokens of the launch, padding among them.
    """

    sequence: Keys
    position: Keys
    stamps: Keys
    slots: Keys
    live: int


class Executor:
    """Runs batches against a memory.

    Args:
        places: addresses.
        truth: what rows must hold.
        topk: entries that a CSA layer's indexer selects.
    """

    def __init__(self, places: Places, truth: Truth, topk: int) -> None:
        self.places, self.truth, self.topk = places, truth, topk
        self.recorder: Recorder | None = None
        room = 64
        self.staged = Staged(*[np.full(room, SENTINEL, np.int64) for _ in range(4)], live=0)

    def run(self, memory: Memory, batch: Batch) -> None:
        """One forward. Decode tokens attend to their own row; a chunk writes its tail after it has read."""
        self.stage(batch)
        self.compress(memory, batch)
        if batch.kind == "decode":
            self.write_windows(memory, batch)
            self.attend(memory, batch)
        else:
            self.attend(memory, batch)
            self.write_windows(memory, batch)
        if self.places.draft is not None:
            self.write_draft_window(memory, batch)
            self.read_draft_window(memory, batch)

    # ---- staging --------------------------------------------------------

    def stage(self, batch: Batch) -> None:
        """Copy a batch into the buffers of the captured launch; what lies behind keeps its contents."""
        size, staged = batch.size, self.staged
        live = self.launched(size, batch.padding)
        if live > len(staged.sequence) or len(batch.slots) > len(staged.slots):
            room = 2 * max(live, len(batch.slots))
            for name in ("sequence", "position", "stamps", "slots"):
                old = getattr(staged, name)
                setattr(staged, name, np.concatenate([old, np.full(room - len(old), SENTINEL, np.int64)]))
        staged.live = live
        staged.sequence[:size] = batch.sequence
        staged.position[:size] = batch.position
        staged.stamps[:size] = batch.stamps
        staged.slots[: len(batch.slots)] = batch.slots
        self.mark_padding(size, live)

    def launched(self, size: int, padding: int) -> int:
        """Tokens of the launch: the batch's and the padding of its graph bucket."""
        return size + padding

    def mark_padding(self, size: int, live: int) -> None:
        """Padded tokens belong to no sequence. Their positions and slots stay what an earlier batch left."""
        self.staged.sequence[size:live] = SENTINEL
        self.staged.stamps[size:live] = GARBAGE

    # ---- compression ----------------------------------------------------

    def compress(self, memory: Memory, batch: Batch) -> None:
        """Complete groups to their entries; only then this forward's rows to the state rings."""
        for ratio in self.places.entries:
            self.pool_groups(memory, batch, ratio)
            self.write_entries(memory, batch, ratio)
            self.write_state(memory, batch, ratio)

    def pool_groups(self, memory: Memory, batch: Batch, ratio: int) -> None:
        """Read the positions before this forward that its complete groups pool."""
        first = batch.starts + (ratio - 1 - batch.starts % ratio)  # position that completes the first group
        low = self.pooled_from(first, ratio)
        completed = first < batch.ends
        needed = np.maximum(first - self.places.pooled[ratio] + 1, 0)
        require_all(batch, "state", np.where(completed, low, needed), needed)
        counts = np.where(completed, batch.starts - low, 0)
        if not counts.any():
            return
        sequence, position = ranges(low, counts)
        wanted = batch.expected(self.truth, sequence, position)
        base = self.slot_base(batch, sequence)
        place = position % self.places.state_ring[ratio]

        def describe(column: int) -> str:
            return f"ratio-{ratio} entry of the {batch.words(int(sequence[column]))}"

        for lanes in self.places.states[ratio]:
            memory.read("state", lanes, base, place, wanted, describe)

    def pooled_from(self, last: Keys, ratio: int) -> Keys:
        """First position that the group ending at ``last`` pools; before position 0 is nothing."""
        return np.maximum(last - self.places.pooled[ratio] + 1, 0)

    def write_entries(self, memory: Memory, batch: Batch, ratio: int) -> None:
        """Write the entry of each group that a token completes."""
        done = np.flatnonzero(self.completes(batch.position, ratio))
        if not done.size:
            return
        sequence, entry = batch.sequence[done], batch.position[done] // ratio
        stamps = (batch.stamps[done] & CONTENT_MASK) | (entry << PLACE_SHIFT)
        base, place = self.entry_base(batch, sequence, entry, ratio)
        kept = base >= 0

        def describe(column: int) -> str:
            return batch.words(int(sequence[kept][column]))

        memory.write(
            f"entries of ratio {ratio}",
            self.places.entries[ratio],
            base[kept],
            place[kept],
            stamps[kept],
            batch.names[sequence[kept]],
            describe,
        )

    def completes(self, position: Keys, ratio: int) -> Mask:
        """Whether a position is the last of its group."""
        return (position + 1) % ratio == 0

    def entry_base(self, batch: Batch, sequence: Keys, entry: Keys, ratio: int) -> tuple[Keys, Keys]:
        """(first row of the block of each entry, or -1; place within the block)."""
        per_block = self.places.block // ratio
        column = entry // per_block
        block = np.where(
            column < batch.tables.shape[1],
            batch.tables[sequence, np.minimum(column, batch.tables.shape[1] - 1)],
            -1,
        )
        return np.where(block >= 0, block * self.places.envelope, SENTINEL), entry % per_block

    def write_state(self, memory: Memory, batch: Batch, ratio: int) -> None:
        """Write the rows that a later forward may pool: the write plan."""
        planned = np.flatnonzero(self.plan(batch, ratio))
        sequence, position = batch.sequence[planned], batch.position[planned]
        base = self.slot_base(batch, sequence)
        place = position % self.places.state_ring[ratio]

        def describe(column: int) -> str:
            return batch.words(int(sequence[column]))

        for lanes in self.places.states[ratio]:
            memory.write(
                f"state of ratio {ratio}",
                lanes,
                base,
                place,
                batch.stamps[planned],
                batch.names[sequence],
                describe,
            )

    def plan(self, batch: Batch, ratio: int) -> Mask:
        """Which tokens go to the state ring: as many as an entry pools, and those that may be taken back."""
        return batch.position >= (batch.ends - self.places.state_ring[ratio])[batch.sequence]

    # ---- windows --------------------------------------------------------

    def slot_base(self, batch: Batch, sequence: Keys) -> Keys:
        """First plane row of the slot of each sequence."""
        return self.places.slot_row(batch.slots)[sequence]

    def ring_place(self, position: Keys) -> Keys:
        """Ring position of a position, of writers and readers alike."""
        return position % self.places.ring

    def written_place(self, position: Keys) -> Keys:
        """Ring position that a writer uses."""
        return self.ring_place(position)

    def write_windows(self, memory: Memory, batch: Batch) -> None:
        """Write each token's row; of a chunk longer than the ring the tail."""
        if batch.kind == "decode":
            live = np.flatnonzero(self.staged.sequence[: self.staged.live] >= 0)
            sequence, position = self.staged.sequence[live], self.staged.position[live]
            stamps = self.staged.stamps[live]
            base = self.places.slot_row(self.staged.slots[sequence])
        else:
            tail = np.flatnonzero(self.in_tail(batch))
            sequence, position, stamps = batch.sequence[tail], batch.position[tail], batch.stamps[tail]
            base = self.slot_base(batch, sequence)
        # A stale sequence may name none of this batch.
        known = np.minimum(sequence, len(batch.names) - 1)

        def describe(column: int) -> str:
            padded = " (a padded token)" if stamps[column] == GARBAGE else ""
            return batch.words(int(known[column])) + padded

        place = self.written_place(position)
        for ratio in self.places.windows:
            memory.write(
                "window rows", self.places.windows[ratio], base, place, stamps, batch.names[known], describe
            )

    def in_tail(self, batch: Batch) -> Mask:
        """Which tokens of a chunk are among its last R."""
        return batch.place >= (batch.new - np.minimum(batch.new, self.places.ring))[batch.sequence]

    def write_draft_window(self, memory: Memory, batch: Batch) -> None:
        """The draft layers' own window, which is a state field."""
        lanes = self.places.draft
        assert lanes is not None
        tail = np.flatnonzero(self.in_tail(batch))
        sequence, position = batch.sequence[tail], batch.position[tail]
        place = position % lanes.period

        def describe(column: int) -> str:
            return batch.words(int(sequence[column]))

        base = self.slot_base(batch, sequence)
        memory.write("draft window", lanes, base, place, batch.stamps[tail], batch.names[sequence], describe)

    def read_draft_window(self, memory: Memory, batch: Batch) -> None:
        """The window that ends at the last token kept, which the next drafts are made from."""
        lanes = self.places.draft
        assert lanes is not None
        stop = batch.starts + batch.kept
        low = np.maximum(stop - self.draft_read(), 0)
        require_all(batch, "draft window", low, np.maximum(stop - self.places.window, 0))
        sequence, position = ranges(low, stop - low)

        def describe(column: int) -> str:
            return f"draft window after the {batch.words(int(sequence[column]))}"

        wanted = batch.expected(self.truth, sequence, position)
        memory.read(
            "draft window", lanes, self.slot_base(batch, sequence), position % lanes.period, wanted, describe
        )

    def draft_read(self) -> int:
        """Positions of a draft-window read."""
        return self.places.window

    # ---- attention ------------------------------------------------------

    def attend(self, memory: Memory, batch: Batch) -> None:
        """What the tokens of this forward read, sequence by sequence."""
        self.read_windows(memory, batch)
        for ratio in self.places.entries:
            self.read_entries(memory, batch, ratio)

    def read_windows(self, memory: Memory, batch: Batch) -> None:
        """The window rows of every query: up to its own for decode, up to the chunk for prefill."""
        stop = batch.ends if batch.kind == "decode" else batch.starts
        low = self.window_low(batch)
        require_all(batch, "window", low, needed_low(batch, self.places.window))
        sequence, position = ranges(low, stop - low)
        if not sequence.size and self.recorder is None:
            return
        wanted = batch.expected(self.truth, sequence, position)
        base, place = self.slot_base(batch, sequence), self.ring_place(position)

        def describe(column: int) -> str:
            return f"{batch.words(int(sequence[column]))}, whose window has position {int(position[column])},"

        for ratio, lanes in self.places.windows.items():
            found = memory.read("window", lanes, base, place, wanted, describe)
            if self.recorder is not None:
                self.recorder(batch, f"window {ratio}", sequence, position, found[0][0] if found else wanted)

    def window_low(self, batch: Batch) -> Keys:
        """First position of the first query's window."""
        return np.maximum(batch.starts - self.places.window + 1, 0)

    def visible(self, batch: Batch, ratio: int) -> Keys:
        """Complete entries at the last query of each sequence."""
        return batch.ends // ratio

    def read_entries(self, memory: Memory, batch: Batch, ratio: int) -> None:
        """The compressed entries that the queries see."""
        count = self.visible(batch, ratio)
        require_all(batch, "entries", -count, -(batch.ends // ratio))
        low = np.zeros_like(count)
        if ratio == CSA_RATIO and int(count.max()) > self.topk:
            room = np.maximum(count - self.topk, 0)
            low = (batch.step * 0x9E3779B1 + batch.names) % (room + 1)
            count = np.minimum(count, self.topk)
        sequence, entry = ranges(low, count)
        if not sequence.size:
            return
        last = entry * ratio + (ratio - 1)
        wanted = (batch.expected(self.truth, sequence, last) & CONTENT_MASK) | (entry << PLACE_SHIFT)
        base, place = self.entry_base(batch, sequence, entry, ratio)
        lost = np.flatnonzero(base < 0)

        def describe(column: int) -> str:
            return f"{batch.words(int(sequence[column]))}, which sees entry {int(entry[column])} of ratio {ratio},"

        if lost.size:
            column = int(lost[0])
            raise memory.no_block(describe(column), int(entry[column]))
        found = memory.read("entries", self.places.entries[ratio], base, place, wanted, describe)
        self.read_sentinels(memory, batch, ratio)
        if self.recorder is not None:
            self.recorder(batch, f"entries {ratio}", sequence, entry, found[0][0])

    def read_sentinels(self, memory: Memory, batch: Batch, ratio: int) -> None:
        """A slice of fixed length ends in sentinels, which readers skip: nothing is read for them."""

    # ---- copies ---------------------------------------------------------

    def checkpoint(self, memory: Memory, slot: int, image: int) -> None:
        """A slot to a host image."""
        self.copy(memory, memory.image(image), slot_to_image(self.places.space, slot))

    def restore(self, memory: Memory, image: Image, slot: int) -> None:
        """A host image to a slot."""
        self.copy(image, memory, image_to_slot(memory.places.space, slot))

    def copy_slot(self, memory: Memory, source: int, target: int) -> None:
        """A slot to another."""
        self.copy(memory, memory, slot_to_slot(self.places.space, source, target))

    def copy_blocks(self, source: Memory, target: Memory, blocks: list[int], copies: list[int]) -> None:
        """Blocks to others, of the same pool or of another."""
        self.copy(source, target, blocks_to_blocks(self.places.space, blocks, copies))

    def copy(self, source: Image | Memory, target: Image | Memory, spans: tuple[Span, ...]) -> None:
        """One launch of the slot copy."""
        copy_spans(source, target, spans)
