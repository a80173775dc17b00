"""Which cells were written twice, or read by one program and written by another.

Programs and lanes run all at once and stores take effect statement by statement, so results stand only
where no cell was written by two of them: this check is part of every run, not an option.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import numpy as np

from kvproof.harness.ir.execute.access import Accesses, Touch
from kvproof.harness.ir.execute.report import Kind, Report
from kvproof.harness.ir.execute.values import Array, every


def find_collisions(accesses: Accesses) -> None:
    """Add a report for each pair of operations that wrote one cell, and for each read of another's write."""
    if len(accesses.stores) == 1 and not accesses.loads and _apart(accesses.stores[0]):
        return  # as most launches end
    by_storage: dict[int, list[Touch]] = {}
    for touch in accesses.stores:
        by_storage.setdefault(id(touch.storage), []).append(touch)
    for stores in by_storage.values():
        cells = _repeated_cells(stores)
        if cells is not None:
            accesses.reports.extend(_collisions(accesses, stores, *cells))
        loads = [t for t in accesses.loads if t.storage is stores[0].storage]
        if loads:
            accesses.reports.extend(_races(accesses, stores, loads))


def _apart(store: Touch) -> bool:
    return store.atomic or not repeats(store.cells, store.storage.data.size // store.width)


def _widths(touches: Sequence[Touch]) -> int:
    """Cell width that all are counted in: the common one, else bytes."""
    widths = {t.width for t in touches}
    return widths.pop() if len(widths) == 1 else 1


def _cells(touch: Touch, width: int) -> Array:
    """Cells in units of ``width``; a wider access covers several."""
    if touch.width == width:
        return touch.cells
    times = touch.width // width
    return (touch.cells[:, None] * times + np.arange(times)).reshape(-1)


def _repeated_cells(stores: Sequence[Touch]) -> tuple[Array, Array] | None:
    """All cells and their sorted order, if any occurs twice."""
    if all(t.atomic for t in stores):
        return None
    width = _widths(stores)
    cells = _cells(stores[0], width) if len(stores) == 1 else np.concatenate([_cells(t, width) for t in stores])
    if not repeats(cells, stores[0].storage.data.size // width):
        return None
    return cells, np.argsort(cells, kind="stable")


_MOST_MARKS = 1 << 22
"""Cells of the largest storage that is marked; cells of a larger one are sorted."""

_FEWEST = 512
"""As many cells are sorted as fast as they are marked."""


class _Marks(threading.local):
    """A number for each cell of a storage: memory that is used again; only what was just written is read."""

    def __init__(self) -> None:
        self.numbers = np.empty(0, np.int32)


_MARKS = _Marks()


def repeats(cells: Array, count: int) -> bool:
    """Whether some cell occurs twice; ``count`` is how many the storage has."""
    if every(cells[1:] > cells[:-1]):
        return False
    if cells.size < _FEWEST or count > _MOST_MARKS:
        in_order = np.sort(cells)
        return not every(in_order[1:] != in_order[:-1])
    if _MARKS.numbers.size < count:
        _MARKS.numbers = np.empty(count, np.int32)
    # Each writes its own number into its cell: of two in one cell, one finds the other's.
    own = np.arange(cells.size, dtype=np.int32)
    _MARKS.numbers[cells] = own
    return not every(_MARKS.numbers.take(cells) == own)


def _writers(stores: Sequence[Touch], width: int) -> Iterator[tuple[Touch, Array]]:
    """Each store with the position of each of its cells among its lanes."""
    for touch in stores:
        times = touch.width // width
        yield touch, np.repeat(np.arange(touch.cells.size), times)


def _collisions(accesses: Accesses, stores: Sequence[Touch], cells: Array, order: Array) -> Iterator[Report]:
    width = _widths(stores)
    which = np.concatenate([np.full(p.size, i) for i, (_, p) in enumerate(_writers(stores, width))])
    program = np.concatenate([t.program_of(p) for t, p in _writers(stores, width)])
    lane = np.concatenate([t.lane_of(p) for t, p in _writers(stores, width)])
    value = np.concatenate([_value_bytes(t, p, width) for t, p in _writers(stores, width)])
    atomic = np.array([t.atomic for t in stores])
    a, b = order[:-1], order[1:]
    same = (cells[a] == cells[b]) & ~(atomic[which[a]] & atomic[which[b]])
    # A lane that comes to one store again in a later iteration keeps its own order.
    operations = _operation_numbers(stores)
    own = (program[a] == program[b]) & (lane[a] == lane[b]) & (operations[which[a]] == operations[which[b]])
    same &= ~(own & (which[a] != which[b]))
    a, b = a[same], b[same]
    equal = value[a] == value[b]
    between = program[a] != program[b]
    # One report a pair of operations, relation of the writers and equality of what they wrote.
    key = np.stack([operations[which[a]], operations[which[b]], between, equal], axis=1)
    for pair in np.unique(key, axis=0):
        members = np.flatnonzero((key == pair).all(axis=1))
        first = members[0]
        one, two = stores[int(which[a[first]])], stores[int(which[b[first]])]
        programs = [accesses.program(int(program[x[first]])) for x in (a, b)]
        who = f"programs {programs[0]} and {programs[1]}" if pair[2] else _lanes(one, two)
        element = int(cells[a[first]]) * width // one.width
        what = "the same value" if pair[3] else "different values"
        yield Report(
            Kind.COLLISION,
            f"{one.name}: storage element {element} is written by {who} with {what}",
            one.at.location,
            two.at.location if two.at.operation is not one.at.operation else None,
            one.name,
            element,
            tuple(programs) if pair[2] else (programs[0],),
            members.size,
            bool(pair[3]),
        )


def _lanes(one: Touch, two: Touch) -> str:
    return "two lanes of one store" if one.at.operation is two.at.operation else "two stores of one program"


def _operation_numbers(stores: Sequence[Touch]) -> Array:
    """A number for each store's operation; a loop runs one several times."""
    known: dict[int, int] = {}
    return np.array([known.setdefault(id(t.at.operation), len(known)) for t in stores])


def _value_bytes(touch: Touch, positions: Array, width: int) -> Array:
    """What was stored, per cell of ``width`` bytes, as integers; an atomic's value counts as unlike any."""
    if touch.values is None:
        return np.arange(positions.size, dtype=np.int64) + (1 << 62)
    data = np.ascontiguousarray(touch.values).view(f"u{width}")
    return data.reshape(-1).astype(np.int64)


def _races(accesses: Accesses, stores: Sequence[Touch], loads: Sequence[Touch]) -> Iterator[Report]:
    """Reads of cells that another program writes: on a device the order of the two is open."""
    width = _widths([*stores, *loads])
    cells = np.concatenate([_cells(t, width) for t in stores])
    program = np.concatenate([t.program_of(p) for t, p in _writers(stores, width)])
    which = np.concatenate([np.full(p.size, i) for i, (_, p) in enumerate(_writers(stores, width))])
    order = np.argsort(cells, kind="stable")
    cells, program, which = cells[order], program[order], which[order]
    for load in loads:
        wanted = _cells(load, width)
        reader = load.program_of(next(_writers([load], width))[1])
        first = np.searchsorted(cells, wanted)
        last = np.searchsorted(cells, wanted, side="right") - 1
        found = first <= last
        # Of several writers of a cell the ends are looked at; more than one is a collision anyway.
        for end in (first, last):
            at = np.where(found, end, 0)
            bad = found & (program[at] > reader if accesses.ordered else program[at] != reader)
            if bad.any():
                i = int(np.flatnonzero(bad)[0])
                store = stores[int(which[at[i]])]
                if load.atomic and store.atomic:
                    continue
                element = int(wanted[i]) * width // load.width
                ids = tuple(accesses.program(int(p)) for p in (reader[i], program[at[i]]))
                words = (
                    f"{load.name}: storage element {element} is read by program {ids[0]} and written by {ids[1]}"
                )
                yield Report(
                    Kind.RACE,
                    words,
                    load.at.location,
                    store.at.location,
                    load.name,
                    element,
                    ids,
                    int(bad.sum()),
                )
                break
