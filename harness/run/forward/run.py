"""Runs a schedule: forward by forward, in the order in which a model's layers run."""

from __future__ import annotations

from kvproof.harness.run.forward.batch import Batch, stage, window_stamps
from kvproof.harness.run.forward.compress import compress
from kvproof.harness.run.forward.launches import Checks, Launches
from kvproof.harness.run.forward.reads import attend
from kvproof.harness.run.forward.world import World
from kvproof.harness.run.forward.writers import build, check_coverage
from kvproof.models.contract import contiguous
from kvproof.properties.joint.schedule import Schedule
from kvproof.properties.joint.stamps import ROW_BYTES, Stamp, rows


def run_schedule(schedule: Schedule, launches: Launches, checks: Checks) -> World:
    """Run a schedule's forwards.

    Raises:
        JointFailed: an obligation that is checked does not hold.
        DeviceError: a launch failed.
    """
    world = World(schedule, launches, checks)
    started: set[int] = set()
    for generation, forward in enumerate(schedule.forwards, start=1):
        for part in forward.parts:
            if part.request not in started:
                started.add(part.request)
                world.restore(part.request)
        batch = stage(world, forward, generation)
        indices, own = build(world, batch)
        check_coverage(world, batch, indices)
        stamps = {ratio: window_stamps(world, batch, ratio) for ratio in world.ratios}
        # Entries that this forward completes pool earlier positions as they were before it.
        compress(world, batch)
        if forward.kind == "decode":
            # A decode token attends to its own row.
            _write(world, batch, stamps, own)
            attend(world, batch, indices, stamps)
        else:
            # A chunk's tail goes to the ring only after the chunk has read what it overwrites.
            _note(world, batch)
            attend(world, batch, indices, stamps)
            _write(world, batch, stamps, {})
        for part in forward.parts:
            world.done[part.request] += part.kept
    return world


def _note(world: World, batch: Batch) -> None:
    """From now on the newest row of each of these positions is this forward's."""
    for t in batch.live():
        world.window[batch.request(t), batch.positions[t]] = batch.generation


def _write(world: World, batch: Batch, stamps: dict[int, list[Stamp]], own: dict[int, list[int]]) -> None:
    """This forward's window rows to the pool: by destination if it has any, else by sequence."""
    _note(world, batch)
    for ratio, rows_of in stamps.items():
        kv = contiguous("uint8", rows(rows_of), (batch.size, ROW_BYTES))
        if ratio in own and world.schedule.scatter:
            done = world.launches.run(
                "row_scatter",
                kv=kv,
                dest_rows=own[ratio],
                batch_id_per_token=batch.sequence,
                pool=world.view(ratio),
            )
        else:
            most = max(part.new for part in batch.forward.parts)
            done = world.launches.run(
                "window_write",
                kv=kv,
                positions=batch.positions,
                cu_seqlens_q=batch.first,
                state_slot_per_seq=batch.slots,
                pool=world.view(ratio),
                window=world.schedule.geometry.window_params(ratio),
                write_per_batch=min(most, world.schedule.geometry.ring_slots),
            )
        world.plane = done["pool"].storage
