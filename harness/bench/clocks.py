"""Clock rate, temperature and power of a GPU, read beside each batch, so that times compare in cycles as well."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import dataclass

_SM, _GPU_SENSOR = 1, 0


@dataclass(frozen=True)
class Reading:
    """What a GPU said; None for what it cannot say.

    Attributes:
        mhz: rate of the clock that its processors run at.
        celsius: temperature.
    """

    mhz: float | None = None
    celsius: float | None = None


class NvidiaClock:
    """Reads an NVIDIA GPU through its driver's library, in some microseconds, or through ``nvidia-smi`` without.

    Args:
        device: PCI bus id ("0000:4F:00.0"), since the library's order of GPUs is not CUDA's.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._library: ctypes.CDLL | None = None
        self._handle = ctypes.c_void_p()
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return
        found = library.nvmlInit_v2() == 0 and not library.nvmlDeviceGetHandleByPciBusId_v2(
            device.encode(), ctypes.byref(self._handle)
        )
        self._library = library if found else None

    def __call__(self) -> Reading:
        """The present reading."""
        if self._library is None:
            return self._by_command()
        mhz, celsius = ctypes.c_uint(), ctypes.c_uint()
        clock = self._library.nvmlDeviceGetClockInfo(self._handle, _SM, ctypes.byref(mhz))
        heat = self._library.nvmlDeviceGetTemperature(self._handle, _GPU_SENSOR, ctypes.byref(celsius))
        return Reading(
            float(mhz.value) if clock == 0 else None,
            float(celsius.value) if heat == 0 else None,
        )

    def _by_command(self) -> Reading:
        command = ["nvidia-smi", f"--id={self._device}", "--query-gpu=clocks.sm,temperature.gpu"]
        try:
            done = subprocess.run(  # noqa: S603  (fixed arguments)
                [*command, "--format=csv,noheader,nounits"],
                capture_output=True,
                text=True,
                timeout=10,
                check=True,
            )
            mhz, celsius = (float(part) for part in done.stdout.split(","))
        except (OSError, subprocess.SubprocessError, ValueError):
            return Reading()
        return Reading(mhz, celsius)


class RocmClock:
    """Reads an AMD GPU through torch, where the driver's Python package is there."""

    def __init__(self, index: int) -> None:
        self._index = index

    def __call__(self) -> Reading:
        """The present reading."""
        import torch  # noqa: PLC0415  (an optional package)

        try:
            return Reading(float(torch.cuda.clock_rate(self._index)), float(torch.cuda.temperature(self._index)))
        except Exception:
            # Whatever its package raises: a reading is a help, never a reason to lose a measurement.
            return Reading()


def gpu_clock() -> NvidiaClock | RocmClock:
    """The clock of torch's current GPU."""
    import torch  # noqa: PLC0415  (an optional package)

    index = torch.cuda.current_device()
    if torch.version.hip:
        return RocmClock(index)
    made = torch.cuda.get_device_properties(index)
    return NvidiaClock(f"{made.pci_domain_id:08X}:{made.pci_bus_id:02X}:{made.pci_device_id:02X}.0")
