"""Whose kernels the steps of a simulation run, and where."""

from __future__ import annotations

from typing import Any

TARGETS = ("reference", "builtin")


def parts_of(target: str, device: str) -> dict[str, Any]:
    """Stand-ins for the parts of a simulation that a target replaces.

    Raises:
        ValueError: an unknown target, or kernels without a device.
    """
    if target not in TARGETS:
        raise ValueError(f"target is {target!r}; allowed: {', '.join(TARGETS)}")
    if target == "reference":
        if device:
            raise ValueError(f"device is {device!r}, but target reference runs no kernels; allowed: none")
        return {}
    from kvproof.harness.simulate.kernels import executor_on  # noqa: PLC0415  (needs torch)

    return {"executor": executor_on(device)}
