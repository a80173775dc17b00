"""The batch of one forward as a caller stages it: ids, positions, slots, tables, slices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvproof.harness.run.forward.world import World
from kvproof.models.row_space import CSA_RATIO, DENSE_RATIO, HCA_RATIO
from kvproof.properties.joint.schedule import Forward, columns_of
from kvproof.properties.joint.stamps import Stamp

STALE_POSITION = 9
"""Position of a padded token: what an earlier batch left in the buffer."""


@dataclass(frozen=True)
class Batch:
    """One forward's tokens.

    Attributes:
        forward: what it does.
        generation: its number, from 1.
        sequence: sequence of each token, -1 for padding.
        positions: position of each token.
        first: first row of each sequence, and the end of the last.
        starts: first new position of each sequence.
        slots: physical slot of each sequence.
        table: block table of the sequences.
    """

    forward: Forward
    generation: int
    sequence: list[int]
    positions: list[int]
    first: list[int]
    starts: list[int]
    slots: list[int]
    table: list[list[int]]

    @property
    def size(self) -> int:
        """Tokens, padded ones among them."""
        return len(self.sequence)

    def request(self, t: int) -> int:
        """Request of a live token."""
        return self.forward.parts[self.sequence[t]].request

    def live(self) -> list[int]:
        """Tokens that are no padding."""
        return [t for t, sequence in enumerate(self.sequence) if sequence >= 0]

    def who(self, t: int) -> str:
        """A token in words."""
        return f"token {t} of forward {self.generation} (request {self.request(t)}, position {self.positions[t]})"


def stage(world: World, forward: Forward, generation: int) -> Batch:
    """Lay out a forward's batch."""
    sequence: list[int] = []
    positions: list[int] = []
    first = [0]
    starts: list[int] = []
    for number, part in enumerate(forward.parts):
        starts.append(world.done[part.request])
        sequence += [number] * part.new
        positions += range(starts[-1], starts[-1] + part.new)
        first.append(len(sequence))
    requests = [world.schedule.requests[part.request] for part in forward.parts]
    columns = columns_of(requests)
    return Batch(
        forward,
        generation,
        [*sequence, *[-1] * forward.padding],
        [*positions, *[STALE_POSITION] * forward.padding],
        first,
        starts,
        [world.slot(part.request) for part in forward.parts],
        [[*request.blocks, *[-1] * (columns - len(request.blocks))] for request in requests],
    )


def window_stamps(world: World, batch: Batch, ratio: int) -> list[Stamp]:
    """This forward's rows of one class: a stamp for each token; padding has one of no request's position."""
    return [
        Stamp(
            batch.request(t) if sequence >= 0 else len(world.schedule.requests),
            world.layer(ratio),
            "window",
            pos,
            batch.generation,
        )
        for t, (sequence, pos) in enumerate(zip(batch.sequence, batch.positions, strict=True))
    ]


def selected(world: World, request: int, pos: int) -> list[int]:
    """Entries that a CSA layer's indexer selects for a token: some of the complete ones, in any order."""
    closed = (pos + 1) // CSA_RATIO
    draw = np.random.default_rng([world.schedule.order, request, pos])
    return [int(entry) for entry in draw.permutation(closed)[: world.schedule.topk]]


def in_window(world: World, pos: int) -> int:
    """Positions of a token's window, its own among them."""
    return min(pos + 1, world.schedule.win)


def before_chunk(world: World, pos: int, start: int) -> int:
    """Positions of a token's window before its chunk."""
    return max(start - max(pos - world.schedule.win + 1, 0), 0)


def head_length(world: World, batch: Batch, ratio: int, t: int) -> int:
    """Compressed entries of a token's slice."""
    pos = batch.positions[t]
    if ratio == DENSE_RATIO:
        return 0
    if ratio == HCA_RATIO:
        return (pos + 1) // HCA_RATIO
    return len(selected(world, batch.request(t), pos))


def bounds(lengths: list[int]) -> list[int]:
    """Bounds of slices of these lengths."""
    return [0, *(int(end) for end in np.cumsum(lengths))] if lengths else [0]
