"""Compression in one forward: entries from the state rings and this forward's rows, then the rings' update."""

from __future__ import annotations

import numpy as np

from kvproof.harness.run.forward.batch import Batch
from kvproof.harness.run.forward.world import OVERLAP, World, state_words
from kvproof.kernels.state_update.spec import pooled
from kvproof.models.contract import TensorValue, contiguous
from kvproof.properties.joint.stamps import ROW_BYTES, Stamp, rows

PLAN_SPARE = 2
"""Rows of a plan's buffer behind those that a forward needs."""


def compress(world: World, batch: Batch) -> None:
    """Write the entries that this forward completes, then this forward's rows to the state rings."""
    for ratio in world.states:
        compress_plan, write_plan = _plans(world, batch, ratio)
        inputs = _inputs(world, batch)
        entries: list[tuple[int, Stamp]] = []
        for ragged, sequence, pos, from_ring in compress_plan:
            if pos >= 0:
                request = batch.forward.parts[sequence].request
                _pool(world, batch, ratio, (ragged, sequence, pos, from_ring), inputs)
                world.entries[ratio, request, pos // ratio] = batch.generation
                row = world.entry_row(ratio, request, pos // ratio)
                entries.append((row, world.entry_stamp(ratio, request, pos // ratio)))
        _write_entries(world, ratio, entries)
        _update(world, batch, ratio, write_plan, inputs)


def _plans(world: World, batch: Batch, ratio: int) -> tuple[list[list[int]], list[list[int]]]:
    new = [part.new for part in batch.forward.parts]
    room = sum(new) + PLAN_SPARE
    done = world.launches.run(
        "compress_plans",
        extend_lens=new,
        context_lens=[start + n for start, n in zip(batch.starts, new, strict=True)],
        compress_plan=contiguous("int32", np.zeros((room, 4)), (room, 4)),
        write_plan=contiguous("int32", np.zeros((room, 4)), (room, 4)),
        ratio=ratio,
        overlap=OVERLAP[ratio],
        draft_tokens=world.schedule.drafts,
    )
    return done["compress_plan"].array.tolist(), done["write_plan"].array.tolist()


def _inputs(world: World, batch: Batch) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """This forward's rows for the compressor, stamped; padding has the stamp of no request."""
    found = [
        state_words(batch.request(t) if sequence >= 0 else len(world.schedule.requests), pos, batch.generation)
        for t, (sequence, pos) in enumerate(zip(batch.sequence, batch.positions, strict=True))
    ]
    return np.array(found, np.float32).reshape(batch.size, 4)


def _pool(
    world: World,
    batch: Batch,
    ratio: int,
    plan: tuple[int, int, int, int],
    inputs: np.ndarray[tuple[int, int], np.dtype[np.float32]],
) -> None:
    """Read the positions of one entry as fused compression does: the leading ones from the ring, the rest new."""
    ragged, sequence, pos, from_ring = plan
    width, request = pooled(ratio, OVERLAP[ratio]), batch.forward.parts[sequence].request
    for place in range(width):
        p = pos - width + 1 + place
        if p < 0:
            continue
        if place < from_ring:
            source = "ring"
            got = world.states[ratio][batch.slots[sequence], p % world.ring_of(ratio)]
            # A restored prefix may reach further back in a state ring than in the window.
            generation = world.window.get((request, p), 0)
        else:
            source = "input"
            got = inputs[ragged - (width - 1 - place)]
            generation = batch.generation
        world.checks.events.add("pooled from the ring" if source == "ring" else "pooled from input")
        wanted = np.array(state_words(request, p, generation), np.float32)
        world.checks.require(
            "order",
            np.array_equal(got, wanted),
            f"entry {pos // ratio} of ratio {ratio} of request {request} in forward {batch.generation}, "
            f"its position {p} from the {source}",
            f"position {p} as forward {generation} wrote it",
            _state_text(got),
        )


def _state_text(words: np.ndarray[tuple[int], np.dtype[np.float32]]) -> str:
    request, pos, generation, _ = (float(word) for word in words)
    if not request > 0:
        return "a row that no one wrote"
    return f"position {pos:.0f} of request {request - 1:.0f} as forward {generation:.0f} wrote it"


def _write_entries(world: World, ratio: int, entries: list[tuple[int, Stamp]]) -> None:
    if not entries:
        return
    done = world.launches.run(
        "row_scatter",
        kv=contiguous("uint8", rows([stamp for _, stamp in entries]), (len(entries), ROW_BYTES)),
        dest_rows=[row for row, _ in entries],
        batch_id_per_token=[0] * len(entries),
        pool=world.view(ratio),
    )
    world.plane = done["pool"].storage


def _update(
    world: World,
    batch: Batch,
    ratio: int,
    plan: list[list[int]],
    inputs: np.ndarray[tuple[int, int], np.dtype[np.float32]],
) -> None:
    state = world.states[ratio]
    kv = contiguous("fp32", inputs, inputs.shape)
    done = world.launches.run(
        "state_update",
        kv=kv,
        score=kv.copy(),
        ape=contiguous("fp32", np.zeros((ratio, 4)), (ratio, 4)),
        kv_state=_state_value(state),
        score_state=_state_value(np.zeros_like(state)),
        write_plan=contiguous("int32", plan, (len(plan), 4)),
        state_slot_mapping=batch.slots,
        ratio=ratio,
        overlap=OVERLAP[ratio],
    )
    world.states[ratio] = done["kv_state"].array.copy()


def _state_value(state: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> TensorValue:
    return contiguous("fp32", state, state.shape)
