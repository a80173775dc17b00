"""Every device by name. Nothing is imported for a device before it is asked for."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from typing import cast

from kvproof.harness.devices.base import Device
from kvproof.harness.devices.missing import MissingDevice

_FACTORIES: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "cuda": ("kvproof.harness.devices.gpu", "GpuDevice", ("cuda",)),
    "hip": ("kvproof.harness.devices.gpu", "GpuDevice", ("hip",)),
    "ir": ("kvproof.harness.devices.ir", "IrDevice", ()),
    "interpret": ("kvproof.harness.devices.interpret", "InterpretDevice", ()),
}
"""Name -> module, class and its arguments; GPUs first."""

AUTO = "auto"
GPUS = ("cuda", "hip")


@functools.cache
def _device(name: str) -> Device:
    # One object a name: a lost GPU must stay lost for the whole process.
    module, factory, arguments = _FACTORIES[name]
    try:
        return cast("Device", getattr(importlib.import_module(module), factory)(*arguments))
    except ModuleNotFoundError as error:
        return MissingDevice(name, f"needs {error.name}, which is not installed")
    except ImportError as error:
        return MissingDevice(name, f"needs {error.name or 'a package'}, which is broken: {error}")


def all_devices() -> list[Device]:
    """Every device that kvproof knows, here or not."""
    return [_device(name) for name in _FACTORIES]


def find_device(name: str = AUTO) -> Device:
    """A device by name; "auto" is the GPU if there is one, else the interpreter.

    Raises:
        ValueError: no device of that name.
    """
    if name == AUTO:
        return next((d for d in map(_device, GPUS) if d.probe().available), _device("interpret"))
    if name not in _FACTORIES:
        raise ValueError(f"device is {name!r}; allowed: {', '.join([AUTO, *_FACTORIES])}")
    return _device(name)
