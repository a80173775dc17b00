"""The production kernels of a checkout, to be timed beside ours. Nothing of them is kept here.

The checkout's modules load on bare parent packages, since its own import the whole engine.
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

ENTRY_POINTS = {
    "window_write": ("state_writes", "swa_write"),
    "row_scatter": ("state_writes", "swa_scatter_rows"),
    "window_gather": ("state_writes", "dspark_paged_window_gather"),
    "state_update": ("state_writes", "update_compressor_states"),
    "decode_indices": ("paged_decode_indices", "write_v4_paged_decode_indices"),
    "prefill_indices": ("paged_prefill_indices", "write_v4_paged_prefill_indices"),
    "csa_translate": ("csa_translate_pack", "csa_translate_pack"),
}
"""Kernel of ours -> (module, function) of the checkout with the same arguments."""

_PACKAGES = ("atom", "atom.model_ops", "atom.model_ops.v4_kernels", "atom.model_ops.attentions", "atom.utils")


def load(checkout: Path) -> dict[str, Callable[..., Any]]:
    """The checkout's launchers by our kernel name; those that do not load are left out.

    Args:
        checkout: the folder that holds ``atom/``.

    Raises:
        FileNotFoundError: there is no such folder in it.
    """
    if not (checkout / "atom").is_dir():
        raise FileNotFoundError(f"{checkout} holds no folder 'atom'")
    for name in _PACKAGES:
        package = types.ModuleType(name)
        package.__path__ = [str(checkout.joinpath(*name.split(".")))]
        sys.modules[name] = package
    decorators = types.ModuleType("atom.utils.decorators")
    decorators.mark_trace = _unmarked  # type: ignore[attr-defined]
    sys.modules[decorators.__name__] = decorators
    found: dict[str, Callable[..., Any]] = {}
    for kernel, (module, function) in ENTRY_POINTS.items():
        try:
            loaded = importlib.import_module(f"atom.model_ops.v4_kernels.{module}")
        except ImportError as error:
            print(f"production {module}: {error}", file=sys.stderr)
            continue
        found[kernel] = getattr(loaded, function)
    return found


def _unmarked(function: Any = None, **_options: Any) -> Any:
    return function if callable(function) else lambda inner: inner


def arguments(kernel: str, given: dict[str, Any]) -> dict[str, Any]:
    """Our launcher's arguments as the checkout's function takes them."""
    taken = dict(given)
    if kernel == "decode_indices":
        names = {"dest_rows_swa": 0, "dest_rows_csa": 4, "dest_rows_hca": 128}
        taken["dest_rows"] = {ratio: taken.pop(name) for name, ratio in names.items()}
    if kernel == "window_gather":
        del taken["out"]
    return taken
