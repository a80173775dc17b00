"""The elastic two-ended pool: blocks from the low end of a plane, slots from its high end, and a boundary between.

Host bookkeeping only: ids, reference counts and counters. Where an id's rows lie is the row space's to say, and
that the two ends never meet is :func:`~kvproof.models.pool.contract.apart`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from kvproof.models.errors import LayoutError
from kvproof.models.index import as_index
from kvproof.models.pool.contract import apart, most_blocks
from kvproof.models.row_space import UnifiedPoolGeometry

Order = Callable[[int], int]
"""Rank of an id among the free ones; the lowest is taken first."""


def in_order(number: int) -> int:
    """Lowest id first: blocks from the low end, groups (whose slots count down) from the high end."""
    return number


class FreeIds:
    """Free ids below a bound, taken by rank.

    Args:
        count: ids ``0..count-1`` are free at first.
        order: rank of an id.
    """

    def __init__(self, count: int, order: Order = in_order) -> None:
        self._order = order
        self._free: set[int] = set()
        self._heap: list[tuple[int, int]] = []
        self.add(range(count))

    def __len__(self) -> int:
        return len(self._free)

    def __contains__(self, number: object) -> bool:
        return number in self._free

    def add(self, numbers: Iterable[int]) -> None:
        """Make ids free."""
        for number in numbers:
            if number in self._free:
                raise LayoutError(f"id {number} is free already")
            self._free.add(number)
            heapq.heappush(self._heap, (self._order(number), number))

    def take(self) -> int | None:
        """The free id of lowest rank; None if there is none."""
        while self._heap:
            _, number = heapq.heappop(self._heap)
            if number in self._free:
                self._free.remove(number)
                return number
        return None

    def drop(self, numbers: Iterable[int]) -> None:
        """Withdraw free ids: they are not to be taken any more."""
        self._free.difference_update(numbers)


class ElasticPool:
    """Blocks, slots and the boundary of one plane (or of several that are numbered alike).

    A block is free, or has references: one of each request whose table names it, and one of the prefix cache. A
    slot is free or a request's. ``block_limit`` and ``slot_limit`` say how many ids there are at present.

    Args:
        space: row space of the plane; its own counts are not used.
        slots: slots at first; blocks get the rest.
        block_order, slot_order: which free id is taken first.

    Raises:
        LayoutError: a layout without compressed rows, or more slots than the plane holds.
    """

    def __init__(
        self,
        space: UnifiedPoolGeometry,
        slots: int,
        block_order: Order = in_order,
        slot_order: Order = in_order,
    ) -> None:
        if space.envelope_rows < 1:
            raise LayoutError("a layout without compressed rows has no blocks; allowed: a CSA or an HCA layer")
        self.space = space
        self.slot_limit = as_index("slots", slots, at_least=0, below=space.held_slots + 1)
        self.block_limit: int = most_blocks(space, self.slot_limit)
        self.references: dict[int, int] = {}
        self._blocks = FreeIds(self.block_limit, block_order)
        self._groups = FreeIds(self.slot_limit, slot_order)

    # ---- blocks ---------------------------------------------------------

    @property
    def free_blocks(self) -> int:
        """Blocks that nothing refers to."""
        return len(self._blocks)

    def take_block(self) -> int | None:
        """A free block, with one reference; None if there is none."""
        block = self._blocks.take()
        if block is not None:
            self.references[block] = 1
        return block

    def retain(self, block: int) -> None:
        """One more reference to a block in use.

        Raises:
            LayoutError: the block is free.
        """
        if block not in self.references:
            raise LayoutError(f"block {block} is free; allowed: a block in use")
        self.references[block] += 1

    def release(self, block: int) -> bool:
        """One reference less. Whether the block is free now.

        Raises:
            LayoutError: the block is free already.
        """
        if block not in self.references:
            raise LayoutError(f"block {block} is released, but it is free already")
        self.references[block] -= 1
        if self.references[block]:
            return False
        del self.references[block]
        if block < self.block_limit:
            self._blocks.add([block])
        return True

    # ---- slots ----------------------------------------------------------

    @property
    def free_slots(self) -> int:
        """Slots that no request has."""
        return len(self._groups)

    def take_group(self) -> int | None:
        """A free pool group; None if there is none."""
        return self._groups.take()

    def release_group(self, group: int) -> None:
        """Give a group back.

        Raises:
            LayoutError: it is free already, or there is no such group.
        """
        as_index("group", group, at_least=0, below=self.slot_limit)
        self._groups.add([group])

    def slot_of(self, group: int) -> int:
        """Physical slot of a group: group 0 is the topmost, whatever the boundary."""
        return self.space.slot_positions - 1 - group

    # ---- the boundary ---------------------------------------------------

    def move_boundary(self, slots: int) -> bool:
        """Let there be so many slots, and as many blocks as fit beside them.

        Returns:
            Whether it moved. It does not where ids that would go are in use.
        """
        slots = as_index("slots", slots, at_least=0, below=self.space.held_slots + 1)
        blocks = most_blocks(self.space, slots)
        if any(block not in self._blocks for block in range(blocks, self.block_limit)):
            return False
        if any(group not in self._groups for group in range(slots, self.slot_limit)):
            return False
        return self._settle(blocks, slots)

    def _settle(self, blocks: int, slots: int) -> bool:
        if not apart(self.space, blocks, slots):
            return False
        self._blocks.drop(range(blocks, self.block_limit))
        self._groups.drop(range(slots, self.slot_limit))
        self._blocks.add(range(self.block_limit, blocks))
        self._groups.add(range(self.slot_limit, slots))
        self.block_limit, self.slot_limit = blocks, slots
        return True
