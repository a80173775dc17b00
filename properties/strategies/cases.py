"""A kernel's case as the fuzzer draws it, and what each kernel's property needs to have seen.

A module of ``properties/strategies/kernels/`` registers one property for one kernel of kernels/.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from kvproof.kernels.shapes import row_tile, shaped_for
from kvproof.models.contract import STORAGE_DTYPES, Access, Arguments
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.properties.statement import Needs


@dataclass(frozen=True)
class Case:
    """One launch.

    Attributes:
        values: the contract's arguments by name.
        poison: seeds of the tensors whose whole storage is :func:`poison` of that seed, by name.
        events: what this case shows.
        layout: the row space and layer that the pool is a view of, as JSON values; for words only.
        shaped_for: rows for which the launch's shape is chosen, see :mod:`kvproof.kernels.shapes`; 0: its own.
    """

    values: Mapping[str, Any]
    poison: Mapping[str, int] = field(default_factory=dict[str, int])
    events: frozenset[str] = frozenset()
    layout: Mapping[str, Any] = field(default_factory=dict[str, Any])
    shaped_for: int = 0


def poison(seed: int, dtype: str, size: int) -> npt.NDArray[Any]:
    """``size`` elements of any bits, NaN included; the same everywhere for the same seed."""
    carrier = np.dtype(STORAGE_DTYPES[dtype])
    # The raw stream of a bit generator is stable between numpy releases; the distributions are not.
    words = np.random.PCG64(seed).random_raw(-(-size * carrier.itemsize // 8))
    return words.view(np.uint8)[: size * carrier.itemsize].copy().view(carrier)


SEVERAL_ROWS = "several rows a program"
"""Event of a launch with two programs or more, each of several rows: a shape that only large batches have."""

MANY_ROWS = (2048, 8192)
"""Rows for which a program takes two rows, and eight."""


def several_rows(row_bytes: int, rows: int, shape: int) -> frozenset[str]:
    """:data:`SEVERAL_ROWS`, if ``rows`` rows show it in the shape of a launch of ``shape`` rows."""
    with shaped_for(shape):
        taken, _ = row_tile(row_bytes, rows)
    return frozenset({SEVERAL_ROWS} if 1 < taken < rows else set[str]())


Explain = Callable[[Arguments, Access, Mapping[str, int]], str]
"""Says in words what writes a cell: called with the case, the access and the values of its indices."""


@dataclass(frozen=True)
class KernelProperty:
    """What is fuzzed of one kernel: that a launch changes every tensor exactly as its contract says.

    Attributes:
        kernel: kernel name.
        words: the property in one sentence.
        cases: the cases for one configuration, or for any layout.
        needs: what a run must have seen.
        explain: see :data:`Explain`.
        system: the system whose layout the kernel follows: "row-space", "schema" or "scratch".
    """

    kernel: str
    words: str
    cases: Callable[[ModelConfig | None], st.SearchStrategy[Case]]
    needs: Needs
    explain: Explain
    system: str = "row-space"


_properties: dict[str, KernelProperty] = {}


def register_property(item: KernelProperty) -> KernelProperty:
    """Add a kernel's property to the list.

    Raises:
        ValueError: the kernel has another one already.
    """
    if _properties.get(item.kernel, item) != item:
        raise ValueError(f"kernel {item.kernel!r} has a property already")
    _properties[item.kernel] = item
    return item


def all_kernel_properties() -> Mapping[str, KernelProperty]:
    """Every kernel's property by kernel name, after importing each module of strategies/kernels/ once."""
    package = importlib.import_module("kvproof.properties.strategies.kernels")
    for module in pkgutil.iter_modules(cast("list[str]", package.__path__)):
        importlib.import_module(f"kvproof.properties.strategies.kernels.{module.name}")
    return dict(sorted(_properties.items()))
