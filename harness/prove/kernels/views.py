"""Tensors as a kernel sees them: a pointer to a view whose extents and strides are terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kvproof.harness.prove.kernels.intervals import Intervals
from kvproof.harness.solve.term import (
    Term,
    add,
    and_,
    combination,
    div,
    eq,
    integer,
    le,
    linear,
    lt,
    mod,
    mul,
    scale,
    sub,
)

ZERO, ONE = integer(0), integer(1)


@dataclass(frozen=True)
class View:
    """What a pointer argument points to.

    Attributes:
        argument: the kernel's argument.
        tensor: the contract's tensor, or a name for scratch that the launcher allocates.
        dtype: contract's element type of the tensor.
        item: bytes of an element.
        shape, strides: of the view that was passed, in elements.
        start: elements from the tensor's first to the view's first.
        same: the view has the contract tensor's own shape and strides, so that coordinates are the contract's.
    """

    argument: str
    tensor: str
    dtype: str
    item: int
    shape: tuple[Term, ...]
    strides: tuple[Term, ...]
    start: Term = ZERO
    same: bool = True

    @property
    def contiguous(self) -> bool:
        """Whether elements lie one after the other, whatever the extents."""
        step = ONE
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if stride is not step and extent is not ONE:
                return False
            step = mul(step, extent)
        return True

    def coordinates(self, offset: Term, intervals: Intervals) -> list[tuple[Term, ...]]:
        """Coordinates whose element lies at this offset; several ways to write them, the likeliest first.

        An offset inside the view has exactly one tuple of coordinates in range, so whichever way is shown to be
        in range is the right one.
        """
        ways = [_split(offset, self.shape, self.strides)]
        divided = _divided(offset, self.shape, self.strides)
        if divided is not None and divided not in ways:
            ways.append(divided)
        return sorted(ways, key=lambda way: not self._plainly_inside(way, intervals))

    def _plainly_inside(self, way: Sequence[Term], intervals: Intervals) -> bool:
        """Whether all but the first coordinate are in range without looking at masks."""
        for coordinate, extent in zip(way[1:], self.shape[1:], strict=True):
            if not extent.is_const or not intervals.within(coordinate, 0, extent.payload - 1):
                return False
        return True

    def exact(self, offset: Term) -> Term:
        """Whether an element of the view lies at this offset, by division: for finding where none does."""
        parts: list[Term] = []
        rest = offset
        for extent, stride in zip(self.shape, self.strides, strict=True):
            if extent is ONE:
                continue
            part = rest if stride is ONE else div(rest, stride)
            rest = ZERO if stride is ONE else mod(rest, stride)
            parts += [le(ZERO, part), lt(part, extent)]
        return and_(*parts, eq(rest, ZERO))

    def inside(self, coordinates: Sequence[Term]) -> Term:
        """Every coordinate is within its extent."""
        parts: list[Term] = []
        for coordinate, extent in zip(coordinates, self.shape, strict=True):
            parts += [le(ZERO, coordinate), lt(coordinate, extent)]
        return and_(*parts)


def _split(offset: Term, shape: Sequence[Term], strides: Sequence[Term]) -> tuple[Term, ...]:
    """Coordinates by syntax: what is a multiple of a stride belongs to its dimension."""
    found: list[Term] = []
    rest = offset
    for extent, stride in zip(shape, strides, strict=True):
        if extent is ONE:
            found.append(ZERO)
            continue
        part = rest if stride is ONE else _multiples(rest, stride)
        found.append(part)
        rest = sub(rest, mul(part, stride))
    # What no stride divides counts for the last dimension, and is then out of range there.
    if rest is not ZERO and found:
        found[-1] = add(found[-1], rest) if strides[-1] is ONE or shape[-1] is ONE else integer(-1)
    return tuple(found)


def _multiples(term: Term, stride: Term) -> Term:
    """The sum of those summands of a term that hold the stride as a factor, divided by it."""
    constant, atoms = linear(term)
    if stride.is_const:
        step = stride.payload
        if step == 0:
            return ZERO
        kept = {atom: c // step for atom, c in atoms.items() if c % step == 0}
        # A constant below the stride is an offset within the row.
        return combination(constant // step if constant >= 0 else -(-constant // step), kept)
    shift, factors = linear(stride)
    if shift or len(factors) != 1:
        return ZERO
    ((atom, times),) = factors.items()
    wanted = list(atom.args) if atom.op == "mul" else [atom]
    total = ZERO
    for summand, c in atoms.items():
        have = list(summand.args) if summand.op == "mul" else [summand]
        if c % times or any(have.count(f) < wanted.count(f) for f in wanted):
            continue
        for factor in wanted:
            have.remove(factor)
        product = ONE
        for factor in have:
            product = mul(product, factor)
        total = add(total, scale(c // times, product))
    return total


def _divided(offset: Term, shape: Sequence[Term], strides: Sequence[Term]) -> tuple[Term, ...] | None:
    """Coordinates by division, where each stride is a number: right for flat indices of contiguous tensors."""
    found: list[Term] = []
    rest = offset
    for extent, stride in zip(shape, strides, strict=True):
        if extent is ONE:
            found.append(ZERO)
        elif stride is ONE:
            found.append(rest)
        elif stride.is_const and stride.payload > 0:
            part = div(rest, stride)
            found.append(part)
            rest = sub(rest, mul(part, stride))
        else:
            return None
    # Something is left over where the last dimension has gaps.
    whole = not strides or strides[-1] is ONE or shape[-1] is ONE
    return tuple(found) if whole else None


Views = Mapping[str, View]
