"""A device whose code needs a package that is not installed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvproof.harness.devices.base import Availability, DeviceError
from kvproof.kernels.registry import Kernel
from kvproof.models.contract import TensorValue


class MissingDevice:
    """Stands for a device that cannot be loaded, so that it is reported as absent like any other.

    Args:
        name: device name.
        reason: why it cannot be loaded.
    """

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self._reason = reason

    def probe(self) -> Availability:
        """Never here."""
        return Availability(False, self._reason)

    def run(self, kernel: Kernel, values: Mapping[str, Any]) -> Mapping[str, TensorValue]:  # noqa: ARG002
        """Raises.

        Raises:
            DeviceError: always.
        """
        raise DeviceError(f"{kernel.name} on {self.name}: {self._reason}")
