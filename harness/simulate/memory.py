"""The reference memory: for each plane row whose it is, what it holds, and who wrote it when.

It is told who gets which block and slot (grants), and every write and read goes through it. A read of a row whose
stamp is not what the query needs is a finding; so is a write into what is not the writer's, and a grant of what
somebody has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kvproof.harness.simulate.broken import Broken
from kvproof.harness.simulate.places import Lanes, Places
from kvproof.harness.simulate.stamps import FREED, FRESH, Keys, words
from kvproof.models.pool import Span

FREE, SHARED = -1, -2
"""Owners that are no request: of nobody, and of everybody for reading."""

Describe = Callable[[int], str]
"""Who accesses, from the column of an access."""


@dataclass
class Image:
    """A host copy of a slot: stamps and writers of each plane."""

    keys: list[Keys]
    who: list[Keys]


@dataclass
class Memory:
    """The planes of one pool.

    Attributes:
        places: addresses.
        keys: by plane the stamp of each row.
        who: by plane the last writer of each row: step << 32 | request + 1; 0 for none.
        slot_owner, block_owner: request that may write; or :data:`FREE`, :data:`SHARED`.
        images: host copies of slots.
        step: number of the present step.
        pool: number of the pool, which findings name.
    """

    places: Places
    keys: list[Keys] = field(init=False)
    who: list[Keys] = field(init=False)
    slot_owner: Keys = field(init=False)
    block_owner: Keys = field(init=False)
    images: dict[int, Image] = field(default_factory=dict[int, Image])
    step: int = 0
    pool: int = 0
    _next_image: int = 0
    _spare: list[Image] = field(default_factory=list[Image])

    def __post_init__(self) -> None:
        places = self.places
        self.keys = [np.full(places.plane_rows, FRESH, np.int64) for _ in range(places.num_planes)]
        self.who = [np.zeros(places.plane_rows, np.int64) for _ in range(places.num_planes)]
        self.slot_owner = np.full(places.space.held_slots, FREE, np.int64)
        self.block_owner = np.full(places.plane_rows // places.envelope, FREE, np.int64)

    def broken(self, check: str, message: str, **facts: Any) -> Broken:
        """A finding in this pool."""
        return Broken(check, message, **facts, pool=self.pool)

    # ---- grants ---------------------------------------------------------

    def grant_slot(self, slot: int, request: int) -> None:
        """A request gets a slot."""
        at = slot - self.places.space.slot_origin
        if not 0 <= at < len(self.slot_owner):
            raise self.broken("ownership", f"request {request} gets slot {slot}, which the plane has not")
        self._refuse_taken("slot", slot, int(self.slot_owner[at]), request)
        blocks = np.flatnonzero(self.block_owner != FREE)
        end = (int(blocks[-1]) + 1) * self.places.envelope if blocks.size else 0
        start = at * self.places.slot_rows
        if end > start:
            raise self.broken(
                "apart",
                f"slot {slot} of request {request} starts at row {start}, block {blocks[-1]} ends at row {end}",
                plane=0,
                row=start,
            )
        self.slot_owner[at] = request

    def grant_block(self, block: int, request: int) -> None:
        """A request gets a block."""
        if not 0 <= block < len(self.block_owner):
            raise self.broken("ownership", f"request {request} gets block {block}, which the plane has not")
        self._refuse_taken("block", block, int(self.block_owner[block]), request)
        slots = np.flatnonzero(self.slot_owner != FREE)
        start = int(slots[0]) * self.places.slot_rows if slots.size else self.places.plane_rows
        end = (block + 1) * self.places.envelope
        if end > start:
            raise self.broken(
                "apart",
                f"block {block} of request {request} ends at row {end}, the lowest slot starts at row {start}",
                plane=0,
                row=start,
            )
        self.block_owner[block] = request

    def _refuse_taken(self, what: str, number: int, owner: int, request: int) -> None:
        if owner != FREE:
            holder = "the prefix cache or several requests" if owner == SHARED else f"request {owner}"
            raise self.broken("ownership", f"{what} {number} is given to request {request}, but {holder} has it")

    def share_block(self, block: int) -> None:
        """From now on a block is only read."""
        if self.block_owner[block] == FREE:
            raise self.broken("ownership", f"block {block} is shared, but it is nobody's")
        self.block_owner[block] = SHARED

    def free_block(self, block: int) -> None:
        """A block is nobody's any more. Its rows stay, marked: nobody may read them."""
        if self.block_owner[block] == FREE:
            raise self.broken("ownership", f"block {block} is given back, but it is nobody's")
        self.block_owner[block] = FREE
        self._mark(block * self.places.envelope, (block + 1) * self.places.envelope)

    def free_slot(self, slot: int) -> None:
        """A slot is nobody's any more. It is not cleared."""
        at = slot - self.places.space.slot_origin
        if self.slot_owner[at] == FREE:
            raise self.broken("ownership", f"slot {slot} is given back, but it is nobody's")
        self.slot_owner[at] = FREE
        self._mark(at * self.places.slot_rows, (at + 1) * self.places.slot_rows)

    def _mark(self, start: int, stop: int) -> None:
        for keys in self.keys:
            span = keys[start:stop]
            # A row that nothing wrote is negative and stays so.
            np.bitwise_or(span, FREED, out=span, where=span >= 0)

    # ---- accesses -------------------------------------------------------

    def write(
        self, what: str, lanes: Lanes, base: Keys, place: Keys, stamps: Keys, requests: Keys, describe: Describe
    ) -> None:
        """Write rows of lanes.

        Args:
            what: in words, for findings.
            lanes: which.
            base: [n] first row of each one's slot or block.
            place: [n] place within the lanes' rows.
            stamps: [n] content and place, or negative for garbage.
            requests: [n] who writes.
            describe: column to words.
        """
        if not base.size:
            return
        rows = base + lanes.rows.take(place, axis=1)
        keys = stamps + lanes.tags
        if (stamps < 0).any():
            keys = np.where(stamps < 0, stamps, keys)
        self._own(what, rows, requests, describe)
        who = (requests + 1) | (self.step << 32)
        for plane in lanes.planes:
            self.keys[plane][rows] = keys
            self.who[plane][rows] = who
            if not (self.keys[plane].take(rows) == keys).all():
                lost = np.argwhere(self.keys[plane].take(rows) != keys)[0]
                row = int(rows[lost[0], lost[1]])
                message = f"{what}: {describe(int(lost[1]))} and another of this step write row {row}"
                raise self.broken("ownership", message, plane=plane, row=row)

    def take_over(self, what: str, plane: int, keys: Keys, written: set[tuple[int, int]]) -> None:
        """Take over a plane that somebody else wrote.

        Args:
            what: in words, for findings.
            plane: which.
            keys: the plane as it is now.
            written: (request, stamp with tag) of every row that may have been written.

        Raises:
            Broken: a row holds anything else, or is not the request's.
        """
        rows = np.flatnonzero(keys != self.keys[plane])
        owners = self.owner_of(rows)
        for row, owner in zip(rows.tolist(), owners.tolist(), strict=True):
            if (owner, int(keys[row])) not in written:
                left = words(int(keys[row]))
                raise self.broken(
                    "ownership", f"{what}: a kernel left {left} in row {row}, {self.region(row)}", row=row
                )
        self.keys[plane] = keys
        self.who[plane][rows] = (owners + 1) | (self.step << 32)

    def owner_of(self, rows: Keys) -> Keys:
        """Request that may write each row, or :data:`FREE` or :data:`SHARED`."""
        slot = self.slot_owner.take(np.minimum(rows // self.places.slot_rows, len(self.slot_owner) - 1))
        block = self.block_owner.take(np.minimum(rows // self.places.envelope, len(self.block_owner) - 1))
        return np.where(slot != FREE, slot, block)

    def _own(self, what: str, rows: Keys, requests: Keys, describe: Describe) -> None:
        """Every written row lies in a slot or a block of the writer's."""
        first, last = int(rows.min()), int(rows.max())
        if first < 0 or last >= self.places.plane_rows:
            column = int(np.argwhere((rows < 0) | (rows >= self.places.plane_rows))[0][1])
            raise self.broken("ownership", f"{what}: {describe(column)} writes outside the plane", row=first)
        slot = self.slot_owner.take(np.minimum(rows // self.places.slot_rows, len(self.slot_owner) - 1))
        good = slot == requests
        if good.all():
            return
        block = np.minimum(rows // self.places.envelope, len(self.block_owner) - 1)
        good |= (slot == FREE) & (self.block_owner.take(block) == requests)
        if good.all():
            return
        lane, column = (int(n) for n in np.argwhere(~good)[0])
        raise self._trespass(what, int(rows[lane, column]), int(requests[column]), describe(column))

    def _trespass(self, what: str, row: int, request: int, who: str) -> Broken:
        place = self.region(row)
        return self.broken(
            "ownership", f"{what}: {who} writes row {row}, {place}", plane=0, row=row, request=request
        )

    def region(self, row: int) -> str:
        """Which block or slot a row is of, and whose that is."""
        at = row // self.places.slot_rows
        if at < len(self.slot_owner) and self.slot_owner[at] != FREE:
            slot = at + self.places.space.slot_origin
            return f"in slot {slot} of request {int(self.slot_owner[at])}"
        block = row // self.places.envelope
        if block < len(self.block_owner) and self.block_owner[block] != FREE:
            owner = int(self.block_owner[block])
            return f"in block {block}, {'shared' if owner == SHARED else f'of request {owner}'}"
        return "which is nobody's"

    def read(
        self, check: str, lanes: Lanes, base: Keys, place: Keys, stamps: Keys, describe: Describe
    ) -> list[Keys]:
        """Read rows of lanes; what they must hold are the stamps. Arguments as of :meth:`write`.

        Returns:
            By plane what was found, [lanes, n].

        Raises:
            Broken: a row holds something else.
        """
        if not base.size:
            return []
        rows = base + lanes.rows.take(place, axis=1)
        wanted = stamps + lanes.tags
        found: list[Keys] = []
        for plane in lanes.planes:
            try:
                got = self.keys[plane].take(rows)
            except IndexError:
                raise self.broken(check, f"a read outside the plane: row {int(rows.max())}") from None
            if not (got == wanted).all():
                raise self.unexpected(check, plane, rows, wanted, got, describe)
            found.append(got)
        return found

    def read_masked(self, check: str, row: int, who: str) -> None:
        """A read whose result is multiplied by 0: harmless, unless the row is poison, for 0 times NaN is NaN."""
        for plane, keys in enumerate(self.keys):
            if keys[row] < 0:
                raise self.broken(check, f"{who} reads row {row}, {words(int(keys[row]))}", plane=plane, row=row)

    def unexpected(
        self, check: str, plane: int, rows: Keys, wanted: Keys, got: Keys, describe: Describe
    ) -> Broken:
        """The finding of a read, which names the write that the row is from."""
        lane, column = (int(n) for n in np.argwhere(got != wanted)[0])
        row = int(rows[lane, column])
        return self.at_row(check, plane, row, int(wanted[lane, column]), int(got[lane, column]), describe(column))

    def at_row(self, check: str, plane: int, row: int, wanted: int, got: int, who: str) -> Broken:
        """A finding about one row."""
        writer, step = self.writer(plane, row)
        by = f"written by request {writer} in step {step}" if writer >= 0 else "never written"
        message = f"{who} needs {words(wanted)}; row {row} ({self.region(row)}) holds {words(got)}, {by}"
        facts: Mapping[str, Any] = {
            "plane": plane,
            "row": row,
            "wanted": words(wanted),
            "got": words(got),
            "writer": writer,
            "written": step,
        }
        return self.broken(check, message, **facts)

    def no_block(self, who: str, entry: int) -> Broken:
        """The finding of a query whose block table has no block for an entry."""
        return self.broken("entries", f"{who} has no block for it", entry=entry)

    def writer(self, plane: int, row: int) -> tuple[int, int]:
        """(request, step) that a row was last written by; request -1 for none."""
        who = int(self.who[plane][row])
        return (who & 0xFFFFFFFF) - 1, who >> 32

    # ---- copies ---------------------------------------------------------

    def new_image(self) -> int:
        """A fresh host image of a slot."""
        number, self._next_image = self._next_image, self._next_image + 1
        rows, planes = self.places.slot_rows, self.places.num_planes
        if self._spare:
            image = self._spare.pop()
            for keys, who in zip(image.keys, image.who, strict=True):
                keys.fill(FRESH)
                who.fill(0)
        else:
            image = Image(
                [np.full(rows, FRESH, np.int64) for _ in range(planes)],
                [np.zeros(rows, np.int64) for _ in range(planes)],
            )
        self.images[number] = image
        return number

    def drop_image(self, number: int) -> None:
        """Forget an image.

        Raises:
            Broken: it is dropped already.
        """
        dropped = self.images.pop(number, None)
        if dropped is None:
            raise self.broken("ownership", f"image {number} is given back, but it is nobody's")
        self._spare.append(dropped)

    def image(self, number: int) -> Image:
        """An image.

        Raises:
            Broken: it was dropped.
        """
        found = self.images.get(number)
        if found is None:
            raise self.broken("ownership", f"image {number} is used, but it was given back")
        return found


def copy_spans(source: Image | Memory, target: Image | Memory, spans: tuple[Span, ...]) -> None:
    """Carry out a copy plan in every plane: stamps, and who wrote them, travel together."""
    for span in spans:
        a, b = span.source, span.target
        for plane in range(len(source.keys)):
            target.keys[plane][b : b + span.rows] = source.keys[plane][a : a + span.rows]
            target.who[plane][b : b + span.rows] = source.who[plane][a : a + span.rows]
