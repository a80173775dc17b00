"""A device: somewhere a kernel can run. Cases go in as plain data and come back as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from kvproof.kernels.registry import Kernel
from kvproof.models.contract import TensorValue


@dataclass(frozen=True)
class Availability:
    """Whether a device can be used here.

    Attributes:
        available: it can.
        detail: what it is ("NVIDIA H200, sm_90"), or why it cannot be used.
    """

    available: bool
    detail: str


class Device(Protocol):
    """Where a kernel runs: ``cuda``, ``hip``, ``interpret``, ``ir``.

    Attributes:
        name: device name.
    """

    name: str

    def probe(self) -> Availability:
        """Whether the device is here. Never raises, never compiles."""
        ...

    def run(self, kernel: Kernel, values: Mapping[str, Any]) -> Mapping[str, TensorValue]:
        """Run one launch and wait for it.

        Args:
            kernel: the kernel.
            values: the contract's arguments by name; tensors as :class:`TensorValue`, which stay unmodified.

        Returns:
            Every tensor argument after the launch (inputs too, so that a modified input is seen).

        Raises:
            DeviceError: the launch failed.
        """
        ...


class DeviceError(RuntimeError):
    """A launch failed on a device: it raised, did not compile, or made an illegal access."""


class AccessError(DeviceError):
    """A kernel touched memory that it must not.

    Attributes:
        kind: "out of bounds" (outside every argument's storage) or "collision" (two programs, or two lanes of
            one store with different values, wrote one element).
        tensor: the argument concerned (for out of bounds, the nearest); empty if none is near.
        element: storage element of that argument; for out of bounds it may be negative or past the end.
        programs: the programs concerned.
    """

    def __init__(self, kind: str, tensor: str, element: int, programs: tuple[tuple[int, ...], ...], detail: str):
        self.kind = kind
        self.tensor = tensor
        self.element = element
        self.programs = programs
        super().__init__(detail)


class DeviceLostError(DeviceError):
    """The device cannot be used any more in this process: an illegal access has broken its context."""
