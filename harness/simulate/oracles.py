"""Metamorphic oracles: two schedules that must read the same, though they are served otherwise.

What each token read is noted as (place, content) of every row, without where the rows lay or when they were
written. For the tokens that both schedules compute, that must be equal; and who is complete must be so in both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kvproof.harness.simulate.batch import Batch
from kvproof.harness.simulate.broken import Broken
from kvproof.harness.simulate.operations import Decode, Operation, Preempt, Prefill, Resume, Transfer
from kvproof.harness.simulate.schedule import World
from kvproof.harness.simulate.stamps import CONTENT_MASK, PLACE_MASK, Keys

Token = tuple[int, int, str]
"""(request, position, what it reads)."""

CHECK = "metamorphic"


@dataclass
class Reads:
    """What every token that was kept has read, the last time that it was computed.

    Attributes:
        window: positions of a window.
        found: by token the stamps, tags left out, by place.
        begun, complete: requests that were admitted, and those that came to their end.
    """

    window: int
    found: dict[Token, tuple[int, ...]] = field(default_factory=dict[Token, tuple[int, ...]])
    begun: set[int] = field(default_factory=set[int])
    complete: set[int] = field(default_factory=set[int])

    def record(self, batch: Batch, what: str, sequence: Keys, place: Keys, found: Keys) -> None:
        """Take what a batch's sequences read together apart into its tokens."""
        kind, _, ratio = what.partition(" ")
        stamps = found & (CONTENT_MASK | PLACE_MASK)
        for number, name in enumerate(batch.names.tolist()):
            mine = sequence == number
            places, held = place[mine], stamps[mine]
            if kind == "window" and batch.kind == "prefill":
                own = batch.sequence == number
                places = np.concatenate([places, batch.position[own]])
                held = np.concatenate([held, batch.stamps[own]])
            first = int(batch.starts[number])
            for pos in range(first, first + int(batch.kept[number])):
                if kind == "window":
                    seen = (places > pos - self.window) & (places <= pos)
                else:
                    seen = (places + 1) * int(ratio) <= pos + 1
                self.found[name, pos, what] = tuple(sorted(held[seen].tolist()))


def run(world: World, schedule: Iterable[Operation], catch_up: bool = False) -> Reads:
    """Carry out a schedule and note what its tokens read.

    Args:
        world: pools.
        schedule: operations.
        catch_up: compute what a request lacks before it decodes, where the schedule counts on a prefix hit.

    Raises:
        Broken: something does not hold.
    """
    engine = world.host()
    reads = Reads(engine.sites[0].places.window)
    for site in engine.sites:
        site.executor.recorder = reads.record
    for operation in schedule:
        if catch_up and isinstance(operation, Decode):
            for name in [part[0] for part in operation.parts if part[0] in engine.where]:
                site, group = engine.where[name]
                engine.apply(Prefill(((name, int(site.known[group]) - 1),)))
        engine.apply(operation)
        reads.begun |= set(engine.where)
        for name, (site, group) in engine.where.items():
            if site.known[group] >= site.goal[group]:
                reads.complete.add(name)
    return reads


# ---- what may be done otherwise ---------------------------------------------


def _one_shot(schedule: Sequence[Operation]) -> list[Operation]:
    """Every prompt in one chunk, however long."""
    return [
        replace(op, parts=tuple((name, 10**6) for name, _ in op.parts)) if isinstance(op, Prefill) else op
        for op in schedule
    ]


def _split(schedule: Sequence[Operation]) -> list[Operation]:
    """Every chunk in two, at a position that no unit divides."""
    done: list[Operation] = []
    for op in schedule:
        if isinstance(op, Prefill):
            done.append(replace(op, parts=tuple((name, upto - upto // 3) for name, upto in op.parts)))
        done.append(op)
    return done


def _plain(schedule: Sequence[Operation]) -> list[Operation]:
    """Every verify step as the plain decode steps of the tokens that it keeps."""
    done: list[Operation] = []
    for op in schedule:
        if not isinstance(op, Decode):
            done.append(op)
            continue
        kept = [min(drafts, accepted) for _, drafts, accepted in op.parts]
        for step in range(max(kept, default=0) + 1):
            names = [part[0] for part, most in zip(op.parts, kept, strict=True) if step <= most]
            done.append(replace(op, parts=tuple((name, 0, 0) for name in names)))
    return done


def _never_preempted(schedule: Sequence[Operation]) -> list[Operation]:
    return [op for op in schedule if not isinstance(op, Preempt | Resume)]


def _never_moved(schedule: Sequence[Operation]) -> list[Operation]:
    return [op for op in schedule if not isinstance(op, Transfer)]


def _unpadded(schedule: Sequence[Operation]) -> list[Operation]:
    return [replace(op, padding=0) if isinstance(op, Decode) else op for op in schedule]


def _reordered(schedule: Sequence[Operation]) -> list[Operation]:
    """Every batch the other way round, in other microbatches."""
    return [
        replace(op, parts=op.parts[::-1], micro=3 - min(op.micro, 2)) if isinstance(op, Prefill | Decode) else op
        for op in schedule
    ]


def _same(schedule: Sequence[Operation]) -> list[Operation]:
    return list(schedule)


@dataclass(frozen=True)
class Oracle:
    """One way to serve otherwise.

    Attributes:
        words: what must make no difference.
        schedule: the other schedule.
        world: the other pools.
        catch_up: as :func:`run` takes it.
    """

    words: str
    schedule: Callable[[Sequence[Operation]], list[Operation]] = _same
    world: Callable[[World], World] = lambda world: world
    catch_up: bool = False


ORACLES: Mapping[str, Oracle] = {
    "one-shot prefill": Oracle("any chunking equals one-shot prefill", _one_shot),
    "chunks split": Oracle("splitting chunks", _split),
    "plain decoding": Oracle("speculation with any acceptance equals plain decoding", _plain),
    "prefix recomputed": Oracle(
        "a prefix hit equals recomputation",
        world=lambda world: replace(world, size=dataclasses.replace(world.size, prefix_cache=False)),
        catch_up=True,
    ),
    "never preempted": Oracle("preempting and resuming", _never_preempted),
    "never moved": Oracle("moving to a pool of another size", _never_moved),
    "permuted allocation": Oracle(
        "which physical blocks and slots are taken",
        world=lambda world: replace(world, size=dataclasses.replace(world.size, order=11)),
    ),
    "unpadded": Oracle("padding a batch to its graph bucket", _unpadded),
    "reordered": Oracle("the order of a batch, and its microbatches", _reordered),
}


def check(world: World, schedule: Sequence[Operation], name: str) -> int:
    """Hold a schedule to one oracle.

    Returns:
        Reads that were compared.

    Raises:
        Broken: they differ, or one of the schedules does not hold by itself.
    """
    oracle = ORACLES[name]
    one = run(world, schedule)
    other = run(oracle.world(world), oracle.schedule(schedule), oracle.catch_up)
    # Where a request keeps its slot, another may find none.
    left = one.complete & other.begun - other.complete
    if left:
        raise Broken(CHECK, f"{oracle.words}: requests {sorted(left)} do not get to their end")
    shared = [token for token in one.found if token in other.found]
    for token in shared:
        if one.found[token] != other.found[token]:
            request, pos, what = token
            message = f"{oracle.words}: {what} reads of request {request} at position {pos} differ"
            raise Broken(CHECK, message, wanted=str(one.found[token]), got=str(other.found[token]))
    return len(shared)
