"""What a worker does for its campaign: loads a target once, then runs its functions on a device."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kvproof.harness.devices.registry import find_device
from kvproof.harness.targets.contracts import all_contracts
from kvproof.harness.targets.guards import guarded, unguarded
from kvproof.harness.targets.launches import redirected
from kvproof.harness.targets.loading import Bound, Library, NotOffered, adapter_of, bind_first
from kvproof.harness.targets.profile import Profile
from kvproof.harness.targets.spec import TargetSpec
from kvproof.kernels.registry import Kernel, resolve
from kvproof.models.contract import Contract, Scalar, TensorValue

CONVERTED = ("WindowParams", "UnifiedPoolGeometry")
"""Kinds of scalars that are a project's own types."""


class TargetKernel:
    """One function of a target, as the devices run it: it looks like a kernel of kernels/.

    Attributes:
        name, contract: of the kernel whose contract it is held to.
        bound: the function.
    """

    def __init__(self, name: str, contract: Contract, bound: Bound, library: Any) -> None:
        self.name, self.contract, self.bound, self.library = name, contract, bound, library

    def load(self) -> Callable[..., None]:
        """The function, taking the contract's arguments."""
        return self._call

    def _call(self, **given: Any) -> None:
        for argument in self.contract.arguments:
            if (
                isinstance(argument, Scalar)
                and argument.kind in CONVERTED
                and given.get(argument.name) is not None
            ):
                given[argument.name] = self.library.convert(argument.kind, given[argument.name])
        entry = self.bound.entry
        adapter = adapter_of(entry)
        with redirected():
            if adapter is not None:
                adapter(self.bound, given, self.library)
            else:
                self._plain(given)

    def _plain(self, given: dict[str, Any]) -> None:
        entry = self.bound.entry
        left_out = (*entry.drop, *entry.returns)
        passed = {entry.rename.get(name, name): value for name, value in given.items() if name not in left_out}
        returned = self.bound(**passed, **entry.constants)
        if entry.returns:
            results = returned if isinstance(returned, (tuple, list)) else (returned,)
            for name, result in zip(entry.returns, results, strict=True):
                fill(given[name], result, name)


def fill(out: Any, result: Any, name: str) -> None:
    """Put what a function returned where the contract wants it.

    Raises:
        ValueError: it has another shape or element type.
    """
    if tuple(result.shape) != tuple(out.shape) or result.dtype != out.dtype:
        raise ValueError(
            f"{name} comes back as {list(result.shape)} {result.dtype}; "
            f"its contract says {list(out.shape)} {out.dtype}"
        )
    out.copy_(result)


class Session:
    """A target loaded in this process.

    Args:
        target: spec, as :meth:`TargetSpec.to_json` writes it.
        device: device name.
    """

    def __init__(self, target: Mapping[str, Any], device: str) -> None:
        self.spec = TargetSpec.from_json(target)
        self.device = find_device(device)
        self.kernels: dict[str, Any] = {}
        self.reasons: dict[str, str] = {}
        self.profile: Profile | None = None
        self.library: Library | None = None
        loader = self.spec.profile()
        if loader is not None:
            self.profile = loader
            self.library = Library(loader, Path(self.spec.root))
        for name, kernel in all_contracts().items():
            self._offer(name, kernel)

    def _offer(self, name: str, kernel: Kernel) -> None:
        if self.profile is None or self.library is None:
            if kernel.launcher:
                self.kernels[name] = kernel
            else:
                self.reasons[name] = "this project has no kernel for it"
            return
        if name in self.profile.missing:
            self.reasons[name] = f"{self.profile.name} does not implement it: {self.profile.missing[name]}"
            return
        try:
            bound = bind_first(self.library, name, kernel.contract)
        except NotOffered as reason:
            self.reasons[name] = f"not offered by this checkout: {reason}"
            return
        self.kernels[name] = TargetKernel(name, kernel.contract, bound, self.library)

    def describe(self) -> dict[str, Any]:
        """What the target offers, and where it runs."""
        found = self.device.probe()
        offered = {
            name: {
                "function": kernel.bound.entry.function,
                "notes": list(kernel.bound.notes),
                "era": kernel.bound.entry.era,
            }
            if isinstance(kernel, TargetKernel)
            else {"function": kernel.launcher, "notes": [], "era": ""}
            for name, kernel in self.kernels.items()
        }
        return {
            "available": found.available,
            "detail": found.detail,
            "offered": offered,
            "not_offered": self.reasons,
            "files": self._files(),
        }

    def _files(self) -> list[str]:
        """Files of the checkout that were imported, relative to it."""
        if self.library is None:
            return []
        root = self.library.root
        files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        paths = (Path(file).resolve() for file in files if file)
        return sorted(str(path.relative_to(root)) for path in paths if path.is_relative_to(root))

    def run(self, contract: str, values: Mapping[str, Any]) -> Mapping[str, TensorValue]:
        """Run one launch; every tensor after it.

        Raises:
            DeviceError: as the device does, and for a tensor whose guard rows were written.
        """
        kernel = self.kernels[contract]
        if self.device.name not in {"cuda", "hip"}:
            return self.device.run(kernel, values)
        # Where addresses are not checked, every storage lies between guard elements.
        inside = guarded(values)
        return unguarded(values, inside, self.device.run(kernel, inside))

    def do_host(self, name: str, given: Any) -> Any:
        """Run a host module on plain data; gives plain data."""
        if self.profile is None or self.library is None or name not in self.profile.host:
            raise NotOffered(f"the profile maps no host module {name!r}")
        adapter = self.profile.host[name]
        function: Callable[..., Any] = resolve(adapter) if isinstance(adapter, str) else adapter
        try:
            return function(self.library, given)
        except NotOffered as reason:
            raise NotOffered(f"{name}: {reason}") from None

    def do_offsets(self, archs: list[str], kind: str = "all") -> Any:
        """Element offsets of the target's kernels that are computed in 32 bits."""
        from kvproof.harness.targets.offsets import offsets_of_session  # noqa: PLC0415

        return offsets_of_session(self, archs, kind)
