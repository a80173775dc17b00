"""Loads, stores and atomics of many programs at once, each checked against the view that its pointer came from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kvproof.harness.ir.execute.formats import from_single, to_single
from kvproof.harness.ir.execute.memory import Memory, Segment, Storage
from kvproof.harness.ir.execute.report import Kind, Report
from kvproof.harness.ir.execute.values import DTYPES, Array, UnsupportedOperation, carrier, every, unsigned
from kvproof.harness.ir.reader import Location, Operation

_POISON: Mapping[str, Any] = {
    # A masked lane without `other` is undefined on the device; whoever uses it should be seen to.
    "f64": np.nan,
    "f32": np.nan,
    "f16": np.nan,
    "bf16": 0x7FFF,
    "i1": True,
}


def poison(element: str) -> Array:
    """What an undefined element holds: NaN for floats, a conspicuous pattern for the rest."""
    dtype = carrier(element)
    if element in _POISON:
        return np.array(_POISON[element], dtype)
    return np.frombuffer(b"\xa5" * np.dtype(dtype).itemsize, dtype)[0]


WIDTHS: Mapping[str, int] = {element: np.dtype(carried).itemsize for element, carried in DTYPES.items()}
"""Bytes of an element in memory."""


@dataclass(slots=True, eq=False)
class Touch:
    """One load or store of many lanes, kept for the check of collisions.

    Attributes:
        storage: whose cells.
        width: bytes of a cell.
        cells: cell numbers, in units of ``width``.
        lanes: flat lane numbers of ``shape`` that the cells belong to; None if all, in order.
        shape: (programs, *lanes) of the operation.
        at: the operation, and its programs.
        name: the tensor.
        atomic: an atomic operation.
        values: what was stored, a number per cell.
    """

    storage: Storage
    width: int
    cells: Array
    lanes: Array | None
    shape: tuple[int, ...]
    at: Place
    name: str
    atomic: bool = False
    values: Array | None = None

    def program_of(self, at: Array) -> Array:
        """Linear program id of each of these cell positions."""
        return self.at.programs[self._flat(at) // self._width]

    def lane_of(self, at: Array) -> Array:
        """Flat lane number, within its program, of each of these cell positions."""
        return self._flat(at) % self._width

    def _flat(self, at: Array) -> Array:
        return at if self.lanes is None else self.lanes[at]

    @property
    def _width(self) -> int:
        return int(np.prod(self.shape[1:], dtype=np.int64))


@dataclass
class Accesses:
    """The memory of one launch, with what was seen and touched.

    Attributes:
        memory: its segments.
        grid: programs along x, y, z.
        reports: what was seen.
        stores: every store and atomic.
        loads: every load of a storage that the kernel also stores to.
        watched: storages whose loads are kept.
        ordered: programs ran one after the other and wait for each other through atomics, so a program may
            read what one before it wrote.
    """

    memory: Memory
    grid: tuple[int, int, int]
    reports: list[Report] = field(default_factory=list)
    stores: list[Touch] = field(default_factory=list)
    loads: list[Touch] = field(default_factory=list)
    watched: set[int] = field(default_factory=set)
    ordered: bool = False

    def program(self, linear: int) -> tuple[int, int, int]:
        """Program ids of a linear one; x runs fastest."""
        x, y, _ = self.grid
        return (linear % x, linear // x % y, linear // (x * y))

    # ---- places -----------------------------------------------------------

    def place(
        self, segment: Segment, address: Array, mask: Array | None, element: str, at: Place
    ) -> tuple[Array, Array | None]:
        """Cell numbers of an access, and which lanes may make it: those of the mask that are in bounds."""
        width = WIDTHS[element]
        offset = address - segment.base
        good = segment.layout.inside(offset, width)
        active = mask
        # Where the mask is on and the address is not good: of truth values, the one is greater.
        if not every(good) and np.count_nonzero(bad := ~good if mask is None else np.greater(mask, good)):
            self._report_outside(segment, offset, bad, width, at)
            active = good & (True if mask is None else mask)
        byte = offset + segment.start if segment.start else offset
        if at.loose or segment.start % width:
            odd = byte % width != 0
            if active is not None:
                odd = odd & active
            if odd.any():
                first = int(np.broadcast_to(byte, odd.shape)[odd][0])
                words = f"{width}-byte access at byte {first} of the storage"
                self._note(Kind.MISALIGNED, words, odd, segment, at, first // segment.item)
                active = ~odd if active is None else active & ~odd
        cells = byte >> (width.bit_length() - 1) if width > 1 else byte
        return cells, active

    def _clean(self, segment: Segment, address: Array, width: int, at: Place) -> Array | None:
        """Cell numbers of accesses that are all in bounds; None if one is not, or may be misaligned."""
        if at.loose or segment.start % width:
            return None
        offset = address - segment.base
        if not every(segment.layout.inside(offset, width)):
            return None
        byte = offset + segment.start if segment.start else offset
        return byte >> (width.bit_length() - 1) if width > 1 else byte

    def _report_outside(self, segment: Segment, offset: Array, bad: Array, width: int, at: Place) -> None:
        offset = np.broadcast_to(offset, bad.shape)
        first = int(offset[bad][0])
        words = (
            f"element {first // segment.item} of a view of shape {segment.shape}, strides {segment.strides}"
            if first % segment.item == 0
            else f"bytes {first}..{first + width - 1} of a view of {segment.layout.span} bytes"
        )
        self._note(Kind.OUT_OF_BOUNDS, words, bad, segment, at, (first + segment.start) // segment.item)

    def _note(self, kind: Kind, words: str, lanes: Array, segment: Segment, at: Place, element: int) -> None:
        first = int(np.flatnonzero(lanes)[0]) // int(np.prod(lanes.shape[1:], dtype=np.int64))
        program = self.program(int(at.programs[min(first, len(at.programs) - 1)]))
        self.reports.append(
            Report(
                kind,
                f"{segment.name}: {words}",
                at.location,
                None,
                segment.name,
                element,
                (program,),
                int(lanes.sum()),
            )
        )

    # ---- load, store ---------------------------------------------------------

    def load(
        self,
        segment: Segment,
        address: Array,
        mask: Array | None,
        other: Array | None,
        at: Place,
        placed: tuple[Array, Array | None] | None = None,
    ) -> Array:
        """Elements at the addresses; where the mask is off, ``other`` or poison.

        ``placed`` is what :meth:`place` returned for them, if it was called.
        """
        element = at.element
        cells, active = placed if placed is not None else self.place(segment, address, mask, element, at)
        flat = segment.storage.typed(element)
        if active is None:
            data = flat.take(cells)
        elif flat.size:
            # Some cell stands in for that of a lane that may not read; what it holds is replaced below.
            data = flat.take(cells, mode="clip")
        else:
            data = np.zeros(np.broadcast_shapes(cells.shape, active.shape), flat.dtype)
        self._check_written(segment, cells, active, at)
        if id(segment.storage) in self.watched:
            self._touch_load(segment, cells, active, at)
        if element == "i1":
            data = data != 0
        if mask is None and active is None:
            return data
        assert active is not None  # place() returns None only for no mask and nothing out of bounds
        return np.where(active, data, poison(element) if other is None else other)

    def _check_written(self, segment: Segment, cells: Array, active: Array | None, at: Place) -> None:
        written = segment.storage.written
        width = WIDTHS[at.element]
        if written is None or written.size < width:
            return
        cells = cells if active is None else np.where(active, cells, 0)
        fresh = ~written[cells * width]
        # A cell was written whole or not at all, unless narrower stores may have written a part of it.
        for byte in range(segment.storage.narrowest, width, segment.storage.narrowest):
            fresh |= ~written[cells * width + byte]
        if active is not None:
            fresh &= active
        if np.count_nonzero(fresh):
            first = int(np.broadcast_to(cells, fresh.shape)[fresh][0])
            element = first * width // segment.item
            words = f"element {element - segment.start // segment.item}"
            self._note(Kind.NEVER_WRITTEN, words, fresh, segment, at, element)

    def _touch_load(self, segment: Segment, cells: Array, active: Array | None, at: Place) -> None:
        shape = (len(at.programs), *at.shape)
        cells, lanes = _selected(cells, active, shape)
        width = WIDTHS[at.element]
        self.loads.append(Touch(segment.storage, width, cells, lanes, shape, at, segment.name))

    def store(self, segment: Segment, address: Array, value: Array, mask: Array | None, at: Place) -> None:
        """Write elements and log them."""
        element = at.element
        shape = (len(at.programs), *at.shape)
        lanes = None if mask is None else _lanes_of(mask, shape)
        chosen = self._clean(segment, _chosen(address, lanes, shape), WIDTHS[element], at)
        if chosen is None:
            cells, active = self.place(segment, address, mask, element, at)
            chosen, lanes = _selected(cells, active, shape)
        if not chosen.size:
            return
        values = _chosen(value, lanes, shape)
        flat = segment.storage.typed(element)
        if element == "i1":
            values = values.astype(np.uint8)
        flat[chosen] = values
        self._mark_written(segment.storage, chosen, flat.itemsize)
        self.stores.append(
            Touch(
                segment.storage,
                flat.itemsize,
                chosen,
                lanes,
                shape,
                at,
                segment.name,
                values=values,
            )
        )

    def _mark_written(self, storage: Storage, cells: Array, width: int) -> None:
        if storage.written is not None:
            storage.narrowest = min(storage.narrowest, width)
            # All bytes of a cell at once: each is a 1 of its own.
            whole = storage.written.size // width * width
            storage.written[:whole].view(f"u{width}")[cells] = int.from_bytes(b"\1" * width, "little")

    # ---- atomics ---------------------------------------------------------------

    def atomic(
        self, segment: Segment, address: Array, value: Array, mask: Array | None, at: Place, update: Update
    ) -> Array:
        """Read, update and write one lane after the other; returns what each lane found."""
        cells, active = self.place(segment, address, mask, at.element, at)
        shape = (len(at.programs), *at.shape)
        chosen, lanes = _selected(cells, active, shape)
        flat = segment.storage.typed(at.element)
        self._check_written(segment, cells, active, at)
        values = _chosen(value, lanes, shape)
        found = np.zeros(chosen.size, flat.dtype)
        for i, cell in enumerate(chosen.tolist()):
            found[i] = flat[cell]
            flat[cell : cell + 1] = update(flat[cell : cell + 1], values[i : i + 1], i)
        self._mark_written(segment.storage, chosen, flat.itemsize)
        self.stores.append(
            Touch(
                segment.storage,
                flat.itemsize,
                chosen,
                lanes,
                shape,
                at,
                segment.name,
                atomic=True,
            )
        )
        result = np.full(shape, poison(at.element))
        result.reshape(-1)[lanes if lanes is not None else slice(None)] = found
        return result


Update = Callable[[Array, Array, int], Array]
"""From (old value, operand, position) to the new value, each an array of one element."""


@dataclass(slots=True, eq=False)
class Place:
    """Which operation accesses memory, for how many lanes of which programs. Never changed.

    Attributes:
        operation: it.
        element: type of what it accesses.
        shape: its lanes.
        programs: linear ids of the programs.
        loose: its pointer may be off by a part of an element: narrower elements were counted on the way to it.
    """

    operation: Operation
    element: str
    shape: tuple[int, ...]
    programs: Array
    loose: bool

    @property
    def location(self) -> Location:
        """Where the operation comes from."""
        return self.operation.location


def _selected(value: Array, active: Array | None, shape: tuple[int, ...]) -> tuple[Array, Array | None]:
    """The value's elements of active lanes in order, and those lanes' flat numbers (None if all)."""
    lanes = _lanes_of(active, shape)
    return _chosen(value, lanes, shape), lanes


def _lanes_of(active: Array | None, shape: tuple[int, ...]) -> Array | None:
    """Flat numbers of the active lanes; None if all are."""
    if active is None or every(active):
        return None
    return np.flatnonzero(active if active.shape == shape else np.broadcast_to(active, shape))


def _chosen(value: Array, lanes: Array | None, shape: tuple[int, ...]) -> Array:
    """The value's elements of these lanes, or of all, in order."""
    flat = (value if value.shape == shape else np.broadcast_to(value, shape)).reshape(-1)
    return flat if lanes is None else flat.take(lanes)


def atomic_update(kind: str, element: str) -> Update:
    """The update of an ``tt.atomic_rmw`` ("add", "fadd", "max", "umax", "and", "xchg")."""
    simple: Mapping[str, Callable[[Array, Array], Array]] = {
        "add": lambda a, b: a + b,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
        "max": np.maximum,
        "min": np.minimum,
        "umax": lambda a, b: np.maximum(unsigned(a), unsigned(b)).view(a.dtype),
        "umin": lambda a, b: np.minimum(unsigned(a), unsigned(b)).view(a.dtype),
        "exch": lambda _a, b: b,
        "xchg": lambda _a, b: b,
        "fadd": lambda a, b: from_single(to_single(a, element) + to_single(b, element), element),
    }
    if kind not in simple:
        raise UnsupportedOperation(f"tt.atomic_rmw {kind}")
    compute = simple[kind]
    return lambda old, operand, _at: compute(old, operand)
