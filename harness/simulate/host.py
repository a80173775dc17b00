"""What a serving host has: its pools, who runs where, and what a request takes and gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kvproof.harness.simulate.memory import Image
from kvproof.harness.simulate.places import Settings
from kvproof.harness.simulate.site import Site, Size, make_site
from kvproof.harness.simulate.truth import Truth
from kvproof.models.pool import ROOT


@dataclass
class Parked:
    """A preempted request.

    Attributes:
        site: where it ran.
        truth_row, known, goal, done: as of :class:`Site`.
        blocks: blocks that it keeps; none if it is to be computed again.
        image: checkpoint of its slot; None likewise.
    """

    site: int
    truth_row: int
    known: int
    goal: int
    done: int = 0
    blocks: list[int] = field(default_factory=list[int])
    image: int | None = None


class Host:
    """Requests on one pool, and on a second that they can be moved to.

    Args:
        settings: what of which layout is simulated.
        size: size of the first pool.
        other: size of the second; by default half as many slots and half as many blocks.
        parts: stand-ins for the pool, the executor and the memory, as :func:`make_site` takes them.
    """

    def __init__(
        self, settings: Settings, size: Size, other: Size | None = None, parts: dict[str, Any] | None = None
    ) -> None:
        self.settings, self.size = settings, size
        config = settings.config
        other = other or Size(
            max(size.slots // 2, 1), max(size.blocks // 2, 1), size.positions, size.images, False, size.order
        )
        requests = 3 * (size.slots + other.slots) + 8
        self.truth = Truth(requests, size.positions + config.draft_tokens + 2)
        self.most_requests = requests
        topk = config.index_topk
        self.sites = [
            make_site(0, settings, size, self.truth, topk, **(parts or {})),
            make_site(1, settings, other, self.truth, topk, **(parts or {})),
        ]
        self.where: dict[int, tuple[Site, int]] = {}
        self.parked: dict[int, Parked] = {}
        self.step = 0
        self.request_steps = 0
        self.starved: set[int] = set()
        self.events: dict[str, int] = {}
        self.ended: set[int] = set()

    def note(self, event: str, times: int = 1) -> None:
        """Count an event."""
        if times:
            self.events[event] = self.events.get(event, 0) + times

    def known_name(self, name: int) -> bool:
        """Whether a name is, or was, a request's."""
        return name in self.where or name in self.parked or name in self.ended

    def seat(self, site: Site, group: int, name: int, row: int, known: int, goal: int) -> None:
        """Enter a request at a group."""
        site.names[group], site.truth_rows[group] = name, row
        site.known[group], site.goal[group] = known, goal
        site.done[group] = site.held[group] = site.hashed[group] = 0
        site.tables[group] = -1
        site.chains[group] = ROOT
        self.where[name] = (site, group)

    def take_slot(self, site: Site, group: int, name: int) -> None:
        """Tell the memory whose slot it is now. It is not cleared."""
        site.memory.grant_slot(int(site.slots[group]), name)

    def restore(self, site: Site, group: int, image: Image) -> None:
        """A checkpoint to a request's slot."""
        site.executor.restore(site.memory, image, int(site.slots[group]))

    def leave(self, site: Site, group: int) -> None:
        """A request gives back what it has."""
        for column in range(int(site.held[group])):
            self.release_block(site, int(site.tables[group, column]))
        self.release_slot(site, group)

    def release_slot(self, site: Site, group: int) -> None:
        """A request's slot is free again."""
        name = int(site.names[group])
        site.names[group] = -1
        site.held[group] = 0
        del self.where[name]
        site.memory.free_slot(int(site.slots[group]))
        site.pool.release_group(group)

    def release_block(self, site: Site, block: int) -> None:
        """One reference to a block less."""
        if site.pool.release(block):
            site.memory.free_block(block)
