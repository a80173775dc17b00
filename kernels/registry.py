"""The list of this project's kernels. Each folder under kernels/ registers itself when it is imported.

Registering imports neither torch nor triton: a kernel's launcher is named, and loaded when it is first used.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from kvproof.models.contract import Contract


@dataclass(frozen=True)
class Kernel:
    """One kernel of this project.

    Attributes:
        name: short name ("window_write"); also its folder.
        contract: what it promises.
        launcher: "module:function" of the Python launcher. It takes the contract's arguments by name (torch
            tensors for tensors), validates them, and launches through :mod:`kvproof.kernels.launch`.
        triton: "module:function" of each ``@triton.jit`` kernel that the launcher may launch.
        cases: "module:function" returning production-size inputs for benchmarks, by name.
        summary: one line for tables.
    """

    name: str
    contract: Contract
    launcher: str
    triton: tuple[str, ...]
    cases: str
    summary: str

    def load(self) -> Callable[..., Any]:
        """The launcher. Imports torch and triton.

        Raises:
            ModuleNotFoundError: torch or triton is not installed.
        """
        return resolve(self.launcher)


def resolve(reference: str) -> Any:
    """The object that a "module:name" reference names."""
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)


_kernels: dict[str, Kernel] = {}


def register(kernel: Kernel) -> Kernel:
    """Add a kernel to the list. Registering the same name again replaces nothing and is refused."""
    known = _kernels.get(kernel.name)
    if known is not None and known != kernel:
        raise ValueError(f"kernel {kernel.name!r} is registered twice")
    _kernels[kernel.name] = kernel
    return kernel


def all_kernels() -> Mapping[str, Kernel]:
    """Every kernel by name, after importing each folder of kernels/ once."""
    package = importlib.import_module("kvproof.kernels")
    for module in pkgutil.iter_modules(cast("list[str]", package.__path__)):
        if module.ispkg:
            importlib.import_module(f"kvproof.kernels.{module.name}")
    return dict(sorted(_kernels.items()))
