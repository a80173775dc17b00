"""Running a launcher on tensors of many extents and no contents, and catching what it launches."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kvproof.harness.ir.compile import Signature, signature_of
from kvproof.harness.ir.torch_types import torch_dtype
from kvproof.harness.prove.kernels.arguments import ITEM_BYTES
from kvproof.harness.prove.kernels.intervals import Interval
from kvproof.kernels.launch import launching_on
from kvproof.models.contract import ConcreteArguments, Contract, Scalar, Tensor, TensorValue

RUNS = 6
"""Runs whose numbers must agree with a formula."""
ATTEMPTS = 300

LARGEST_TENSOR = 2**40
"""Bytes of the largest tensor that any machine is taken to hold."""


class UnknownLaunch(Exception):  # noqa: N818  (a verdict: UNSUPPORTED)
    """How the entry point launches its kernels cannot be told."""


@dataclass(frozen=True)
class Caught:
    """One launch as it was made."""

    kernel: Any
    signature: Signature
    values: Mapping[str, Any]
    grid: tuple[int, int, int]


@dataclass(frozen=True)
class Run:
    """One run: the numbers chosen, the tensors made and the launches caught."""

    numbers: Mapping[str, int]
    tensors: Mapping[str, Any]
    launches: tuple[Caught, ...]

    @cached_property
    def kind(self) -> tuple[Any, ...]:
        """Equal for runs that launch the same specialisations in the same order."""
        return tuple((id(c.kernel), c.signature.key) for c in self.launches)


class Prober:
    """Runs one entry point.

    Args:
        contract: its contract.
        launcher: takes the contract's arguments by name.
        base: one case, of whose tensors only type, shape and strides count.

    Attributes:
        tensors: the tensors that the case has.
        numbers: extents, integer scalars, and by how much free strides exceed dense rows, by name.
        scalars: names of the contract's scalars.
        free_strides: tensors whose first stride is free.
    """

    def __init__(self, contract: Contract, launcher: Callable[..., Any], base: Mapping[str, Any]) -> None:
        self.contract = contract
        self.launcher = launcher
        self.base = base
        self.tensors = [t for t in contract.tensors if isinstance(base.get(t.name), TensorValue)]
        self.numbers: dict[str, int] = {}
        self.free_strides = [t for t in self.tensors if t.strides != "contiguous" and len(t.shape) > 1]
        for tensor in self.tensors:
            for extent, got in zip(tensor.shape, base[tensor.name].shape, strict=True):
                if isinstance(extent, str):
                    self.numbers.setdefault(extent, got)
        self.scalars = {a.name for a in contract.arguments if isinstance(a, Scalar)}
        for argument in contract.arguments:
            value = base.get(argument.name)
            if isinstance(argument, Scalar) and argument.kind == "int" and type(value) is int:
                self.numbers[argument.name] = value
        for tensor in self.free_strides:
            self.numbers[stride_name(tensor)] = 0
        self._launched: dict[tuple[tuple[str, int], ...], bool] = {}
        self._first: Run | None = None

    # ---- runs ---------------------------------------------------------------

    def run(self, numbers: Mapping[str, int]) -> Run | None:
        """Launch with these numbers; None if the contract or the launcher refuses them."""
        if not self._allowed(numbers):
            return None
        try:
            values, tensors = self._arguments(numbers)
        except (RuntimeError, TypeError):
            return None  # more elements than torch can count
        caught: list[Caught] = []

        def catch(kernel: Any, grid: Any, *args: Any, **meta: Any) -> None:
            signature, bound = signature_of(kernel, args, meta)
            whole: Any = grid({**signature.constants, **bound}) if callable(grid) else grid
            x, y, z = (*whole, 1, 1)[:3]
            caught.append(Caught(kernel, signature, bound, (x, y, z)))

        try:
            with launching_on(catch):
                self.launcher(**values)
        except (TypeError, ValueError, RuntimeError):
            return None
        return Run(dict(numbers), tensors, tuple(caught))

    def _arguments(self, numbers: Mapping[str, int]) -> tuple[dict[str, Any], dict[str, Any]]:
        import torch  # noqa: PLC0415  (an optional package)

        tensors: dict[str, Any] = {}
        for tensor in self.tensors:
            shape = [numbers[e] if isinstance(e, str) else e for e in tensor.shape]
            strides = [1]
            for extent in reversed(shape[1:]):
                strides.insert(0, strides[0] * extent)
            if tensor in self.free_strides:
                strides[0] += numbers[stride_name(tensor)]
            kind = torch_dtype(self.base[tensor.name].dtype)
            # Of device "meta": extents, strides and storages without any memory.
            tensors[tensor.name] = torch.empty_strided(shape, strides[: len(shape)], dtype=kind, device="meta")
        values = {name: numbers.get(name, value) for name, value in self.base.items()}
        return {**values, **tensors}, tensors

    def _allowed(self, numbers: Mapping[str, int]) -> bool:
        values = {name: numbers.get(name, value) for name, value in self.base.items()}
        contents = {t.name: _Anything(self.base[t.name].storage.dtype) for t in self.tensors}
        known = ConcreteArguments(self.contract, {**values, **contents}, numbers)
        for clause in self.contract.requires:
            if not clause.over:
                try:
                    if not clause.holds(known):
                        return False
                except (TypeError, IndexError):
                    continue  # it looks at contents, which do not matter here
        return True

    # ---- what varies -----------------------------------------------------------

    def make_room(self, first: Run) -> None:
        """Enlarge what can be without another specialisation: extents that just fit leave nothing room to vary."""
        for _ in range(2):
            for name, number in list(self.numbers.items()):
                for more in (64, 16, 5):
                    if self._like(first, {**self.numbers, name: number + more}) is not None:
                        self.numbers[name] = number + more
                        break

    def _like(self, first: Run, numbers: Mapping[str, int]) -> Run | None:
        run = self.run(numbers) if all(n >= 0 or name in self.scalars for name, n in numbers.items()) else None
        return run if run is not None and run.kind == first.kind else None

    def _is_like(self, first: Run, numbers: Mapping[str, int]) -> bool:
        """Whether these numbers launch what the first run did; remembered, as some are tried again."""
        if self._first is not first:
            self._first, self._launched = first, {}
        key = tuple(numbers.items())
        found = self._launched.get(key)
        if found is None:
            found = self._launched[key] = self._like(first, numbers) is not None
        return found

    def ranges(self, first: Run, free: Sequence[str]) -> dict[str, Interval]:
        """For each free number the values for which the same specialisations are launched."""
        found: dict[str, Interval] = {}
        for name in free:
            widest: Interval = (-(2**31), 2**31 - 1) if name in self.scalars else (0, self._largest(name, free))
            found[name] = (0, None) if name.endswith(".stride") else self.range(first, free, name, widest)
        return found

    def _largest(self, name: str, free: Sequence[str]) -> int:
        """The largest extent with which no tensor takes more than ``LARGEST_TENSOR`` bytes."""
        largest = 2**31 - 1
        for tensor in self.tensors:
            if name in tensor.shape:
                others = ITEM_BYTES[self.base[tensor.name].dtype]
                for extent in tensor.shape:
                    if extent != name and extent not in free:
                        others *= max(self.numbers[extent] if isinstance(extent, str) else extent, 1)
                largest = min(largest, LARGEST_TENSOR // others)
        return largest

    def range(self, first: Run, free: Sequence[str], name: str, widest: Interval) -> Interval:
        """Values of a number for which the same specialisations are launched, taken to be one interval.

        Other extents follow where they have to be larger, or smaller, too.
        """
        extents = [n for n in free if n != name and n not in self.scalars and not n.endswith(".stride")]

        vectors = {e for t in self.tensors if len(t.shape) == 1 for e in t.shape}

        def launches(value: int) -> bool:
            one = {**self.numbers, name: value}
            larger = {n: max(self.numbers[n], value + 64) for n in extents}
            longer = {n: extent for n, extent in larger.items() if n in vectors}
            smaller = {n: min(self.numbers[n], max(value - 1, 0)) for n in extents}
            return any(self._is_like(first, {**one, **others}) for others in ({}, longer, larger, smaller))

        def last(good: int, bad: int) -> int:
            while abs(bad - good) > 1:
                middle = (good + bad) // 2
                good, bad = (middle, bad) if launches(middle) else (good, middle)
            return good

        low, high = widest
        assert low is not None  # the widest range has both ends
        assert high is not None
        here = self.numbers[name]
        return (low if launches(low) else last(here, low)), (high if launches(high) else last(here, high))

    def free(self, first: Run) -> list[str]:
        """Numbers that can vary without launching another specialisation."""
        found: list[str] = []
        for name, number in self.numbers.items():
            others = (number + 1, number + 3, number - 1, number - 3, number // 2, number + 16)
            if any(self._is_like(first, {**self.numbers, name: other}) for other in others if other >= 0):
                found.append(name)
        return found

    def runs(self, first: Run, ranges: Mapping[str, Interval]) -> list[Run]:
        """Runs of the same specialisations with free numbers drawn: near the case, and at every scale."""
        draw = random.Random(0)  # noqa: S311  (not a secret)
        near: list[Run] = []
        far: list[Run] = []
        for attempt in range(ATTEMPTS):
            scaled = attempt % 2 == 1
            numbers = self._drawn(draw, ranges, attempt // 2, scaled=scaled)
            run = self._like(first, numbers)
            if run is not None:
                (far if scaled else near).append(run)
            enough = len(near) >= RUNS and len(far) >= RUNS
            if enough and all(len({r.numbers[n] for r in near + far}) > 2 for n in ranges):
                break
        return near + far

    def _drawn(
        self, draw: random.Random, ranges: Mapping[str, Interval], attempt: int, *, scaled: bool
    ) -> dict[str, int]:
        spread = (61, 29, 13, 5)[attempt % 4]
        factor = (3, 20, 100, 1000)[attempt % 4] if scaled else 1
        numbers = dict(self.numbers)
        for name, (low, high) in ranges.items():
            # Some keep their number, since others may only vary while they do.
            if draw.random() < (0.9, 0.6, 0.3)[attempt % 3] or (scaled and name not in self.scalars):
                number = numbers[name]
                if name in self.scalars and scaled and low is not None and high is not None:
                    number = draw.randint(max(low, 0), min(high, max(4 * number, 8)))
                else:
                    number = number * factor + draw.randint(-spread, spread) * (
                        4 if name.endswith(".stride") else 1
                    )
                numbers[name] = min(max(number, low or 0), number if high is None else high)
        return numbers


class _Anything:
    """A tensor whose contents are not looked at."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype

    def __getitem__(self, _index: Any) -> Any:
        raise TypeError("contents")


def stride_name(tensor: Tensor) -> str:
    """Name of the number that a tensor's first stride exceeds dense rows by."""
    return f"{tensor.name}.stride"
