"""What a launch computes before it reads any memory. Launches with the same grid, scalars and layouts share it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from kvproof.harness.ir.execute.access import Place
from kvproof.harness.ir.execute.values import Array


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """Where the programs of a launch stand before they read any memory. Only ``placed`` is ever changed.

    Attributes:
        kernel: whose; kept so that its id stays its own.
        values: by value number.
        programs: linear ids of the programs.
        placed: what loads need at addresses that depend on no memory; filled as they are first made.
    """

    kernel: Any
    values: list[Array | None]
    programs: Array
    placed: dict[int, tuple[Place, Array, Array | None]]


class Starts(threading.local):
    """Starts by what they depend on; the ones used last, up to a number of bytes.

    Args:
        most: bytes of all that are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes = 0
        self._kept: OrderedDict[Hashable, tuple[Start, int]] = OrderedDict()

    def get(self, alike: Hashable) -> Start | None:
        """The start of a launch like one before."""
        found = self._kept.get(alike)
        if found is None:
            return None
        self._kept.move_to_end(alike)
        return found[0]

    def forget(self) -> None:
        """Keep none."""
        self._kept.clear()
        self._bytes = 0

    def keep(self, alike: Hashable, start: Start, steady: Iterable[int]) -> None:
        """Keep a start; ``steady`` are the numbers of its own values, the rest is its kernel's."""
        size = _OVERHEAD + 8 * len(start.values)
        for number in steady:
            value = start.values[number]
            if value is not None:
                value.setflags(write=False)
                size += value.nbytes
        size *= 2  # a load's cells are as many as its addresses
        if size > self._most // 8:
            return
        self._kept[alike] = (start, size)
        self._bytes += size
        while self._bytes > self._most:
            _, (_, freed) = self._kept.popitem(last=False)
            self._bytes -= freed


_OVERHEAD = 4096
"""Bytes of a start without values, about."""

SHARED = Starts(64 << 20)
