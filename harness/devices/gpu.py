"""A GPU through torch: ``cuda`` on NVIDIA, ``hip`` on AMD. To torch both are "cuda"; its build says which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvproof.harness.devices.base import Availability, DeviceError, DeviceLostError
from kvproof.harness.devices.torch_values import TorchArguments
from kvproof.kernels.registry import Kernel
from kvproof.models.contract import TensorValue

TORCH_DEVICE = "cuda"
# What torch and the drivers say when a kernel has broken the process's context.
LOST = (
    "illegal memory access",
    "unspecified launch failure",
    "misaligned address",
    "device-side assert",
    "hiperror",
)


class GpuDevice:
    """A GPU of this process.

    Args:
        name: "cuda" or "hip".
    """

    def __init__(self, name: str) -> None:
        if name not in {"cuda", "hip"}:
            raise ValueError(f"name is {name!r}; allowed: cuda, hip")
        self.name = name
        self._lost = ""

    def probe(self) -> Availability:
        """Which GPU it is, or why there is none."""
        if self._lost:
            return Availability(False, f"lost after a fault in this process: {self._lost}")
        try:
            import torch  # noqa: PLC0415
            import triton  # noqa: PLC0415

            build = "hip" if torch.version.hip else "cuda" if torch.version.cuda else "CPU"
            if build != self.name:
                return Availability(False, f"torch {torch.__version__} is a {build} build")
            if not torch.cuda.is_available():
                return Availability(False, f"torch {torch.__version__} sees no GPU")
            properties: Any = torch.cuda.get_device_properties(0)
            arch = properties.gcnArchName if build == "hip" else f"sm_{properties.major}{properties.minor}"
            return Availability(
                True, f"{properties.name}, {arch}, torch {torch.__version__}, Triton {triton.__version__}"
            )
        except Exception as error:
            return Availability(False, f"needs torch and triton: {error}")

    def run(self, kernel: Kernel, values: Mapping[str, Any]) -> Mapping[str, TensorValue]:
        """Run one launch and wait for it.

        Raises:
            DeviceLostError: the launch broke this process's context.
            DeviceError: the launch failed otherwise.
        """
        if self._lost:
            raise DeviceLostError(f"{self.name} was lost after an earlier fault: {self._lost}")
        import torch  # noqa: PLC0415

        try:
            launched = TorchArguments(values, TORCH_DEVICE)
            kernel.load()(**launched.arguments)
            torch.cuda.synchronize()
            return launched.results()
        except Exception as error:
            text = f"{kernel.name} on {self.name}: {error!r}"
            if any(sign in str(error).lower() for sign in LOST):
                self._lost = text
                raise DeviceLostError(text) from error
            raise DeviceError(text) from error
