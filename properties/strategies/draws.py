"""Small strategies that draw away from the degenerate value and still shrink to it.

A table that is the identity, slot 0, block 0 and sequences of one length make most faults invisible. Drawn
uniformly they are common; here they are rare, and a failing case still shrinks to them if it can.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers

T = TypeVar("T")

RARE = 4
"""Every value but the first is this many times as likely as the first."""


def seldom_first(values: Sequence[T]) -> st.SearchStrategy[T]:
    """One of the values, the first of them rarely. Shrinks towards the first."""
    # sampled_from shrinks towards lower positions, and the first copy of each value is the one that counts.
    return st.sampled_from([*values, *list(values[1:]) * (RARE - 1)])


@functools.cache  # strategies are immutable, and building one costs more than drawing from it
def seldom_low(low: int, high: int) -> st.SearchStrategy[int]:
    """An integer of a short range, ``low`` rarely. Shrinks towards ``low``."""
    return seldom_first(range(low, high + 1))


@functools.cache
def rarely() -> st.SearchStrategy[bool]:
    """True about once in four. Shrinks towards False."""
    return st.sampled_from([False, False, False, True])


@functools.cache
def mostly() -> st.SearchStrategy[bool]:
    """True about three times in four. Shrinks towards False."""
    return st.sampled_from([False, True, True, True])


@functools.cache
def shapes_for(*rows: int) -> st.SearchStrategy[int]:
    """Rows for which a launch's shape is chosen; 0, its own, half of the time. Shrinks towards its own."""
    return st.sampled_from([0] * len(rows) + [*rows])


@functools.cache
def now_and_then() -> st.SearchStrategy[bool]:
    """True about once in eight. Shrinks towards False."""
    return st.sampled_from([False] * 7 + [True])


@st.composite
def distinct_from(draw: st.DrawFn, values: Iterable[T], size: int) -> list[T]:
    """``size`` different values (or all, if fewer) in no order; shrinks to the first ones in their order."""
    left = list(values)
    # Each draw has one range however many values are left, so that a case with fewer shrinks draw by draw.
    places = [draw(st.integers(0, 63)) for _ in range(min(size, len(left)))]
    return [left.pop(place % len(left)) for place in places]


@contextmanager
def same_draws_everywhere() -> Iterator[None]:
    """Within: hypothesis draws no constants out of the modules that happen to be imported.

    It likes to try numbers that stand in the source of local modules, so the cases of a seed would depend on what
    else the process has loaded. Older releases do not do that and have nothing to hold back.
    """
    names = [name for name in ("_get_local_constants", "CONSTANTS_CACHE") if hasattr(providers, name)]
    before = {name: getattr(providers, name) for name in names}
    held: dict[str, Any] = {}
    if len(names) == 2:
        nothing = type(before["_get_local_constants"]())()
        held = {"_get_local_constants": lambda: nothing, "CONSTANTS_CACHE": type(before["CONSTANTS_CACHE"])(1024)}
    for name, value in held.items():
        setattr(providers, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(providers, name, value)
