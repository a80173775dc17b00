"""An executor that runs a target's kernels for every step, on a device, against the reference memory.

Kernels move the memory's own stamps: a plane is handed to them as rows of eight bytes. What they wrote is taken
over only after it was held to what they may write; what the index builders list is read row by row and held to
what each token needs. Two things stay with the reference: the floats of fused compression (a stamp cannot be
pooled; which positions it pools, and from where, is checked by the plan), and which entries an indexer selects.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kvproof.harness.devices.base import DeviceError
from kvproof.harness.devices.registry import find_device
from kvproof.harness.run.forward.launches import Launches
from kvproof.harness.simulate.batch import Batch, ranges
from kvproof.harness.simulate.broken import Broken
from kvproof.harness.simulate.executor import Executor
from kvproof.harness.simulate.indices import Indices, build_decode, build_prefill, check_reads
from kvproof.harness.simulate.memory import Image, Memory, copy_spans
from kvproof.harness.simulate.places import OVERLAP, Places
from kvproof.harness.simulate.stamps import CONTENT_MASK, PLACE_SHIFT, Keys
from kvproof.harness.simulate.truth import Truth
from kvproof.models.contract import TensorValue, contiguous
from kvproof.models.pool import Span

ROW = 8
"""Bytes of a row of stamps."""

WORDS = 4
"""fp32 numbers that carry a stamp through a state ring: sixteen bits each, which fp32 holds exactly."""

PLAN_SPARE = 2


def executor_on(device: str) -> Callable[..., KernelExecutor]:
    """What makes executors on a device.

    Raises:
        ValueError: no device of that name.
    """
    launches = Launches(find_device(device))

    def make(places: Places, truth: Truth, topk: int) -> KernelExecutor:
        return KernelExecutor(places, truth, topk, launches)

    return make


class KernelExecutor(Executor):
    """Runs batches with kernels.

    Args:
        places, truth, topk: as :class:`Executor` takes them.
        launches: kernels on a device.
    """

    def __init__(self, places: Places, truth: Truth, topk: int, launches: Launches) -> None:
        super().__init__(places, truth, topk)
        self.launches = launches
        self._indices: Indices | None = None

    def launch(self, name: str, **values: Any) -> Any:
        """One launch.

        Raises:
            Broken: it failed on the device.
        """
        try:
            return self.launches.run(name, **values)
        except DeviceError as error:
            raise Broken("launch", f"{name}: {error}") from error

    def run(self, memory: Memory, batch: Batch) -> None:
        """One forward: index builders first, as a host stages them, then as the reference does."""
        self.stage(batch)
        build = build_decode if batch.kind == "decode" else build_prefill
        self._indices = build(self, self.launch, batch)
        super().run(memory, batch)

    # ---- writes ---------------------------------------------------------

    def pool_view(self, memory: Memory, plane: int, base: int) -> TensorValue:
        """A plane of stamps as bytes, from a layer's base row on."""
        rows = self.places.plane_rows - base
        return TensorValue("uint8", memory.keys[plane].view(np.uint8), (rows, ROW), (ROW, 1), base * ROW)

    def take_over(
        self, what: str, memory: Memory, plane: int, after: TensorValue, stamps: Keys, names: Keys
    ) -> None:
        """What a kernel left in a plane, if it wrote these stamps and nothing else, each into its writer's own."""
        keys = after.storage.view(np.int64)
        memory.take_over(what, plane, keys, set(zip(names.tolist(), stamps.tolist(), strict=True)))

    def rows_of(self, stamps: Keys, tag: int) -> TensorValue:
        """Stamps as rows of bytes."""
        keys = np.where(stamps < 0, stamps, stamps + tag)
        return contiguous("uint8", keys.view(np.uint8).reshape(-1, ROW), (len(keys), ROW))

    def write_windows(self, memory: Memory, batch: Batch) -> None:
        """Each token's row: by destination for decode, by sequence for prefill."""
        assert self._indices is not None
        staged, live, names = self.staged, self.staged.live, batch.names[batch.sequence]
        for ratio, lanes in self.places.windows.items():
            for lane, layer in enumerate(self.places.layers_of(ratio, self.places.settings.layers == "all")):
                base, tag = int(self.places.space.layer_base_row(layer)), int(lanes.tags[lane, 0])
                for plane in lanes.planes:
                    pool = self.pool_view(memory, plane, base)
                    if batch.kind == "decode":
                        done = self.launch(
                            "row_scatter",
                            kv=self.rows_of(staged.stamps[:live], tag),
                            dest_rows=self._indices.own[ratio],
                            batch_id_per_token=staged.sequence[:live],
                            pool=pool,
                        )
                    else:
                        done = self.launch(
                            "window_write",
                            kv=self.rows_of(batch.stamps, tag),
                            positions=batch.position,
                            cu_seqlens_q=firsts(batch.new),
                            state_slot_per_seq=batch.slots,
                            pool=pool,
                            window=self.places.space.window_params(ratio),
                            write_per_batch=min(int(batch.new.max()), self.places.ring),
                        )
                    self.take_over("window rows", memory, plane, done["pool"], batch.stamps + tag, names)

    def write_entries(self, memory: Memory, batch: Batch, ratio: int) -> None:
        """The entries of complete groups, to rows that follow from the plan."""
        plan = self._plan(batch, ratio)[0]
        tokens = plan[plan[:, 2] >= 0, 0]
        if not tokens.size:
            return
        sequence, entry = batch.sequence[tokens], batch.position[tokens] // ratio
        stamps = (batch.stamps[tokens] & CONTENT_MASK) | (entry << PLACE_SHIFT)
        block, place = self.entry_base(batch, sequence, entry, ratio)
        lanes = self.places.entries[ratio]
        for lane, layer in enumerate(self.places.layers_of(ratio, self.places.settings.layers == "all")):
            base, tag = int(self.places.space.layer_base_row(layer)), int(lanes.tags[lane, 0])
            rows = np.where(block < 0, -1, block + lanes.rows[lane].take(place) - base)
            for plane in lanes.planes:
                done = self.launch(
                    "row_scatter",
                    kv=self.rows_of(stamps, tag),
                    dest_rows=rows,
                    batch_id_per_token=np.zeros(len(rows), np.int64),
                    pool=self.pool_view(memory, plane, base),
                )
                names = batch.names[sequence]
                self.take_over(f"entries of ratio {ratio}", memory, plane, done["pool"], stamps + tag, names)

    def _plan(self, batch: Batch, ratio: int) -> tuple[Keys, Keys]:
        """(compress plan, write plan) of a batch."""
        room = batch.size + PLAN_SPARE
        done = self.launch(
            "compress_plans",
            extend_lens=batch.new,
            context_lens=batch.ends,
            compress_plan=contiguous("int32", np.zeros((room, 4)), (room, 4)),
            write_plan=contiguous("int32", np.zeros((room, 4)), (room, 4)),
            ratio=ratio,
            overlap=OVERLAP[ratio],
            draft_tokens=self.places.drafts,
        )
        return done["compress_plan"].array.astype(np.int64), done["write_plan"].array.astype(np.int64)

    def pool_groups(self, memory: Memory, batch: Batch, ratio: int) -> None:
        """Read what the compress plan takes from the rings."""
        plan = self._plan(batch, ratio)[0]
        plan = plan[plan[:, 2] >= 0]
        low = np.maximum(plan[:, 2] - self.places.pooled[ratio] + 1, 0)
        stop = plan[:, 2] - self.places.pooled[ratio] + 1 + plan[:, 3]  # the first that comes from this forward
        row, position = ranges(low, stop - low)
        if not row.size:
            return
        sequence = plan[row, 1]
        wanted = batch.expected(self.truth, sequence, position)

        def describe(column: int) -> str:
            return f"ratio-{ratio} entry of the {batch.words(int(sequence[column]))}"

        base, place = self.slot_base(batch, sequence), position % self.places.state_ring[ratio]
        for lanes in self.places.states[ratio]:
            memory.read("state", lanes, base, place, wanted, describe)

    def write_state(self, memory: Memory, batch: Batch, ratio: int) -> None:
        """This forward's rows to the state rings, field by field."""
        plan, names = self._plan(batch, ratio)[1], batch.names[batch.sequence]
        origin, held = int(self.places.space.slot_origin), int(self.places.space.held_slots)
        starts = np.arange(held, dtype=np.int64) * self.places.slot_rows
        for lanes in self.places.states[ratio]:
            for lane in range(len(lanes.rows)):
                rows = starts[:, None] + lanes.rows[lane]
                keys = memory.keys[lanes.planes[0]]
                kv = as_floats(batch.stamps + int(lanes.tags[lane, 0]))
                done = self.launch(
                    "state_update",
                    kv=contiguous("fp32", kv, kv.shape),
                    score=contiguous("fp32", kv, kv.shape),
                    ape=contiguous("fp32", np.zeros((ratio, WORDS)), (ratio, WORDS)),
                    kv_state=contiguous("fp32", as_floats(keys[rows]), (*rows.shape, WORDS)),
                    score_state=contiguous("fp32", np.zeros((*rows.shape, WORDS)), (*rows.shape, WORDS)),
                    write_plan=contiguous("int32", plan, (len(plan), 4)),
                    state_slot_mapping=batch.slots - origin,
                    ratio=ratio,
                    overlap=OVERLAP[ratio],
                )
                after = keys.copy()
                after[rows] = from_floats(done["kv_state"].array)
                left = TensorValue("int64", after, after.shape, (1,))
                stamps = batch.stamps + int(lanes.tags[lane, 0])
                self.take_over(f"state of ratio {ratio}", memory, lanes.planes[0], left, stamps, names)

    # ---- draft window ---------------------------------------------------

    def _draft_view(self, memory: Memory, lane: int) -> tuple[TensorValue, Any, int]:
        """(the plane as rows of the draft window, window scalars, plane rows of one)."""
        (placed,) = [p for p in self.places.config.state_layout().placed if p.field.name == "draft_window"]
        row_bytes = self.places.config.planes[placed.plane].row_bytes
        layers, ring, _ = placed.field.shape
        per = placed.field.nbytes // (layers * ring) // row_bytes
        layer = lane if self.places.settings.layers == "all" else layers // 2
        offset = placed.offset // row_bytes + layer * ring * per
        window = self.places.space.field_window_params(offset, per)
        count = self.places.plane_rows // per
        storage = memory.keys[placed.plane].view(np.uint8)
        return TensorValue("uint8", storage, (count, per * ROW), (per * ROW, 1)), window, per

    def write_draft_window(self, memory: Memory, batch: Batch) -> None:
        """The draft layers' rows, which take several plane rows each; the first holds the stamp."""
        lanes = self.places.draft
        assert lanes is not None
        names = batch.names[batch.sequence]
        for lane in range(len(lanes.rows)):
            pool, window, per = self._draft_view(memory, lane)
            stamps = batch.stamps + int(lanes.tags[lane, 0])
            rows = np.repeat(stamps, per).view(np.uint8).reshape(-1, per * ROW)
            done = self.launch(
                "window_write",
                kv=contiguous("uint8", rows, rows.shape),
                positions=batch.position,
                cu_seqlens_q=firsts(batch.new),
                state_slot_per_seq=batch.slots,
                pool=pool,
                window=window,
                write_per_batch=min(int(batch.new.max()), self.places.ring),
            )
            self.take_over("draft window", memory, lanes.planes[0], done["pool"], stamps, names)

    def read_draft_window(self, memory: Memory, batch: Batch) -> None:
        """The window gather, held to the window that ends at the last token kept."""
        lanes = self.places.draft
        assert lanes is not None
        width = self.draft_read()
        anchor = batch.starts + batch.kept - 1
        position = anchor[:, None] - (width - 1) + np.arange(width)
        sequence = np.repeat(np.arange(len(anchor)), width)
        wanted = batch.expected(self.truth, sequence, np.maximum(position.reshape(-1), 0))
        for lane in range(len(lanes.rows)):
            pool, window, per = self._draft_view(memory, lane)
            shape = (len(anchor), width, per * ROW)
            done = self.launch(
                "window_gather",
                pool=pool,
                state_slot_per_seq=batch.slots,
                anchor_pos=anchor,
                draft_window=width,
                window=window,
                out=contiguous("uint8", np.zeros(shape, np.uint8), shape),
            )
            got = np.ascontiguousarray(done["out"].array).reshape(-1, per * ROW).view(np.int64)[:, 0]
            keys = np.where(position.reshape(-1) < 0, 0, wanted + int(lanes.tags[lane, 0]))
            bad = np.flatnonzero(got != keys)
            if bad.size:
                column = int(bad[0])
                place = int(position.reshape(-1)[column])
                row = int(self.slot_base(batch, sequence[[column]])[0] + lanes.rows[lane, place % lanes.period])
                who = f"draft window after the {batch.words(int(sequence[column]))}"
                raise memory.at_row("draft window", lanes.planes[0], row, int(keys[column]), int(got[column]), who)

    # ---- attention ------------------------------------------------------

    def attend(self, memory: Memory, batch: Batch) -> None:
        """Read every row that the index builders list, token by token."""
        assert self._indices is not None
        check_reads(self, memory, batch, self._indices)

    # ---- copies ---------------------------------------------------------

    def copy(self, source: Image | Memory, target: Image | Memory, spans: tuple[Span, ...]) -> None:
        """One launch of the slot copy for each plane; who wrote a row goes along."""
        plan = np.array([(span.source, span.target, span.rows) for span in spans], np.int64).reshape(-1, 3)
        moved: list[Keys] = []
        for plane in range(len(source.keys)):
            one, other = source.keys[plane].view(np.uint8), target.keys[plane].view(np.uint8)
            shared = one if source is target else other
            done = self.launch(
                "slot_copy",
                source=TensorValue("uint8", one, one.shape, (1,)),
                target=TensorValue("uint8", shared, shared.shape, (1,)),
                spans=contiguous("int64", plan, plan.shape),
                granule=ROW,
            )
            moved.append(done["target"].storage.view(np.int64))
        copy_spans(source, target, spans)
        for plane, keys in enumerate(moved):
            wrong = np.flatnonzero(keys != target.keys[plane])
            if wrong.size:
                raise Broken(
                    "launch", f"slot_copy left row {int(wrong[0])} of plane {plane} otherwise than its plan"
                )


def firsts(new: Keys) -> Keys:
    """First row of each sequence, and the end of the last."""
    return np.concatenate([[0], np.cumsum(new)])


def as_floats(keys: Keys) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Stamps as fp32 numbers, one more dimension of :data:`WORDS`."""
    words = np.ascontiguousarray(keys).view(np.uint16).reshape(*keys.shape, WORDS)
    return words.astype(np.float32)


def from_floats(values: np.ndarray[Any, Any]) -> Keys:
    """What :func:`as_floats` made of stamps."""
    return np.ascontiguousarray(values.astype(np.uint16)).view(np.int64)[..., 0]
