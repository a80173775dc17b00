"""Checks the addresses of interpreted loads and stores, and finds elements with two writers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kvproof.harness.devices.base import AccessError

Program = tuple[int, ...]

NEAR_BYTES = 4096
"""An access at most so far outside an argument is told as an element of it."""


class AccessLog:
    """The memory accesses of one launch.

    Args:
        storages: for each tensor argument, its storage's address, its bytes and the bytes of an element.
    """

    GUARDED = ("create_masked_load", "create_masked_store", "create_atomic_cas", "create_atomic_rmw")

    def __init__(self, storages: Mapping[str, tuple[int, int, int]]) -> None:
        self._arguments = dict(storages)
        self.program: Program = (0, 0, 0)
        self._written: list[tuple[npt.NDArray[np.uint64], Program]] = []
        self.begin_launch({})

    def begin_launch(self, scratch: Mapping[str, tuple[int, int, int]]) -> None:
        """Make ready for one kernel, which may also touch scratch memory that its launcher has allocated.

        Args:
            scratch: storages as above, by the kernel's parameter names; arguments among them change nothing.
        """
        # Tensors that share a storage count once, under the first name.
        spans: dict[int, tuple[int, int, str, int]] = {}
        for name, (start, size, item) in {**self._arguments, **scratch}.items():
            if size or name in self._arguments:
                spans.setdefault(start, (start, start + size, name, item))
        self._spans = sorted(spans.values())
        self._starts = np.array([s[0] for s in self._spans], np.uint64)
        self._stops = np.array([s[1] for s in self._spans], np.uint64)

    def guard(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """The builder's method with a check before it."""
        signature = inspect.signature(method)
        # An atomic's first parameter is what it does.
        first = next(name for name in signature.parameters if name in {"ptr", "ptrs"})
        stores = method.__name__ == "create_masked_store"

        def guarded(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs).arguments
            pointers = bound[first]
            addresses = np.asarray(pointers.data).reshape(-1)
            live = np.ones(addresses.shape, bool)
            if "mask" in bound:
                live = np.broadcast_to(np.asarray(bound["mask"].data, bool), pointers.data.shape).reshape(-1)
            # Pointers of one bit less than a byte do not exist; int1 is stored as a byte.
            item = max(pointers.get_element_ty().primitive_bitwidth // 8, 1)
            self._check(addresses[live], item, method.__name__)
            if stores:
                values = np.broadcast_to(np.asarray(bound["value"].data), pointers.data.shape).reshape(-1)
                self._note(addresses[live], values[live])
            return method(*args, **kwargs)

        guarded.__name__ = method.__name__
        return guarded

    def _check(self, addresses: npt.NDArray[np.uint64], item: int, what: str) -> None:
        if not addresses.size:
            return
        span = np.searchsorted(self._starts, addresses, side="right").astype(np.int64) - 1
        inside = (span >= 0) & (self._stops[span] - addresses >= item) & (self._stops[span] > addresses)
        if inside.all():
            return
        address = int(addresses[np.argmin(inside)])
        name, element, distance = self._nearest(address)
        verb = {"create_masked_load": "reads", "create_masked_store": "writes"}.get(what, "updates")
        detail = f"program {self.program} {verb} outside every argument"
        if distance > NEAR_BYTES:
            # Which argument is nearest is chance then, and so is how far.
            raise AccessError("out of bounds", "", 0, (self.program,), f"{detail}, far from all")
        detail += f": element {element} of {name}'s storage"
        raise AccessError("out of bounds", name, element, (self.program,), detail)

    def _nearest(self, address: int) -> tuple[str, int, int]:
        """(argument, element, bytes away) of an address, which may lie before or past the argument's storage."""

        def distance(span: tuple[int, int, str, int]) -> int:
            start, stop, _, _ = span
            return max(start - address, address - stop + 1, 0)

        nearest = min(self._spans, key=distance)
        start, _, name, item = nearest
        return name, (address - start) // item, distance(nearest)

    def _note(self, addresses: npt.NDArray[np.uint64], values: npt.NDArray[Any]) -> None:
        order = np.argsort(addresses, kind="stable")
        sorted_addresses, bits = addresses[order], _bits(values)[order]
        twice = (sorted_addresses[1:] == sorted_addresses[:-1]) & (bits[1:] != bits[:-1])
        if twice.any():
            self._collision(int(sorted_addresses[1:][np.argmax(twice)]), (self.program,))
        self._written.append((np.unique(sorted_addresses), self.program))

    def finish_launch(self) -> None:
        """Look for elements that two programs of this launch wrote.

        Raises:
            AccessError: there is one.
        """
        written, self._written = self._written, []
        if not written:
            return
        programs = {program: number for number, program in enumerate(dict.fromkeys(p for _, p in written))}
        addresses = np.concatenate([a for a, _ in written])
        writers = np.concatenate([np.full(a.size, programs[p]) for a, p in written])
        order = np.lexsort((writers, addresses))
        addresses, writers = addresses[order], writers[order]
        twice = (addresses[1:] == addresses[:-1]) & (writers[1:] != writers[:-1])
        if twice.any():
            at = int(np.argmax(twice))
            names = list(programs)
            self._collision(int(addresses[at]), (names[writers[at]], names[writers[at + 1]]))

    def _collision(self, address: int, programs: tuple[Program, ...]) -> None:
        name, element, _ = self._nearest(address)
        who = " and ".join(f"program {p}" for p in programs)
        if len(programs) == 1:
            who = f"two lanes of {who}"
        detail = f"{who} write element {element} of {name}'s storage; which one stays depends on timing"
        raise AccessError("collision", name, element, programs, detail)


def _bits(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Values as integers of their width, so that a NaN equals itself."""
    contiguous = np.ascontiguousarray(values)
    return contiguous.view(f"u{contiguous.dtype.itemsize}")
