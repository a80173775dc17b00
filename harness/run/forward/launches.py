"""Launches of kernels by name, with plain arrays in and out, and what a run checks on the way."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from kvproof.harness.devices.base import Device
from kvproof.kernels.registry import Kernel, all_kernels
from kvproof.models.contract import TensorValue, contiguous

POISON = -777_777
"""What an index buffer holds before a writer runs: no row, and no index that a writer writes."""

GUARD = 3
"""Cells before and after an index buffer."""


class JointFailed(AssertionError):  # noqa: N818  (reads as what happened)
    """A run does not meet a joint obligation.

    Attributes:
        obligation: its name.
        message: what went wrong, as requests and positions.
        expected, got: the two sides.
    """

    def __init__(self, obligation: str, message: str, expected: str, got: str) -> None:
        self.obligation, self.message, self.expected, self.got = obligation, message, expected, got
        super().__init__(f"{obligation}: {message}: expected {expected}, got {got}")


@dataclass
class Checks:
    """The obligations that a run checks, and the events that it showed.

    Attributes:
        active: their names; whatever breaks of others is passed over.
        events: see :class:`~kvproof.properties.statement.Needs`.
    """

    active: Collection[str] = ()
    events: set[str] = field(default_factory=set[str])

    def require(self, obligation: str, holds: bool, message: str, expected: object, got: object) -> None:
        """Raise :class:`JointFailed` if it does not hold and the obligation is checked."""
        if not holds and obligation in self.active:
            raise JointFailed(obligation, message, str(expected), str(got))


@dataclass(frozen=True)
class Launches:
    """Kernels on a device.

    Attributes:
        device: where they run.
        kernels: by name; a planted copy may stand for one.
    """

    device: Device
    kernels: Mapping[str, Kernel] = field(default_factory=all_kernels)

    def run(self, name: str, **values: Any) -> Mapping[str, TensorValue]:
        """One launch; int lists and arrays become int32 tensors.

        Returns:
            Every tensor argument after it.
        """
        return self.device.run(self.kernels[name], {key: _value(value) for key, value in values.items()})


def _value(value: Any) -> Any:
    if isinstance(value, (list, np.ndarray)):
        return contiguous("int32", value)
    return value


def index_buffer(cells: int) -> TensorValue:
    """A poisoned int32 buffer with guard cells around it."""
    storage = np.full(cells + 2 * GUARD, POISON, np.int32)
    return TensorValue("int32", storage, (cells,), (1,), GUARD)


def written(buffer: TensorValue) -> tuple[npt.NDArray[np.bool_], bool]:
    """(which cells of a buffer a writer wrote, whether it wrote beside it)."""
    beside = buffer.storage.copy()
    beside[buffer.offset : buffer.offset + buffer.shape[0]] = POISON
    return buffer.array != POISON, bool((beside != POISON).any())
