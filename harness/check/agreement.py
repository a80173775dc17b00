"""Whether two devices agree on one launch: every element of every buffer, bit by bit, and where a contract gives a
bound for floats instead of a value, both within it.

Neither is the oracle. What must agree to the bit does so anywhere in a buffer, also where the kernel had no
business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from kvproof.harness.check.differential import bits_of
from kvproof.models.contract import (
    Access,
    Approximate,
    ConcreteArguments,
    Contract,
    TensorValue,
    bind,
    index_arrays,
    within_bound,
)
from kvproof.models.floats import from_bf16


@dataclass
class Agreement:
    """What a comparison of two devices' results found.

    Attributes:
        elements: elements compared.
        equal: of these, those with the same bits.
        bounded: those that differ, and are both within their contract's bound of the exact value.
        open: those that differ where the contract promises nothing.
        worst: the largest difference of a bounded element, in units of its bound; at most 2.
        differences: what does not agree, in words.
    """

    elements: int = 0
    equal: int = 0
    bounded: int = 0
    open: int = 0
    worst: float = 0.0
    differences: list[str] = field(default_factory=list[str])

    def add(self, other: Agreement) -> None:
        """Count another comparison too."""
        self.elements += other.elements
        self.equal += other.equal
        self.bounded += other.bounded
        self.open += other.open
        self.worst = max(self.worst, other.worst)
        self.differences += other.differences


def agreement(
    contract: Contract,
    values: Mapping[str, Any],
    one: Mapping[str, TensorValue],
    two: Mapping[str, TensorValue],
) -> Agreement:
    """Compare what two devices made of one launch.

    Args:
        contract: of the kernel.
        values: the launch.
        one, two: every tensor after it.
    """
    arguments = bind(contract, values)
    found = Agreement()
    compared: set[int] = set()
    for tensor in contract.tensors:
        value = values[tensor.name]
        if value is None or id(value.storage) in compared:
            continue
        compared.add(id(value.storage))
        differs = bits_of(one[tensor.name].storage) != bits_of(two[tensor.name].storage)
        found.elements += differs.size
        found.equal += int(differs.size - differs.sum())
        if differs.any():
            _settle(contract, arguments, tensor.name, value, differs, one, two, found)
    return found


def _settle(
    contract: Contract,
    a: ConcreteArguments,
    name: str,
    before: TensorValue,
    differs: npt.NDArray[np.bool_],
    one: Mapping[str, TensorValue],
    two: Mapping[str, TensorValue],
    found: Agreement,
) -> None:
    """Take the elements that may differ out of those that do; put the others into words."""
    for access in contract.writes:
        if access.buffer != name or (access.bound is None and access.mode != "may"):
            continue
        cell, chosen = _cells(access, a)
        if not chosen or not chosen[0].size:
            continue
        allowed = np.ones(before.array[cell].shape, bool)
        if access.bound is not None:
            wanted: Approximate = access.bound(a, *chosen)
            allowed = _both_within(wanted, one[name], two[name], cell, found)
        settled = TensorValue(
            "uint8", np.zeros(differs.size, np.uint8), before.shape, before.strides, before.offset
        )
        settled.array[cell] = allowed
        gone = differs & (settled.storage != 0)
        if access.bound is None:
            found.open += int(gone.sum())
        else:
            found.bounded += int(gone.sum())
        differs &= settled.storage == 0
    wrong = np.flatnonzero(differs)
    if wrong.size:
        at = int(wrong[0])
        sides = [bits_of(side[name].storage[at : at + 1])[0] for side in (one, two)]
        found.differences.append(
            f"{name}: {wrong.size} elements differ, first {at} of the storage: {sides[0]:#x}, {sides[1]:#x}"
        )


def _cells(access: Access, a: ConcreteArguments) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    indices = index_arrays(access.over, a)
    live = np.broadcast_to(np.asarray(access.when(a, *indices), bool), indices[0].shape)
    chosen = tuple(column[live] for column in indices)
    cell = tuple(np.broadcast_to(np.asarray(c, np.int64), chosen[0].shape) for c in access.cell(a, *chosen))
    return cell, chosen


def _both_within(
    wanted: Approximate, one: TensorValue, two: TensorValue, cell: tuple[Any, ...], found: Agreement
) -> npt.NDArray[np.bool_]:
    """Which elements of the cells both sides have within the bound."""
    decode = wanted.decode or (from_bf16 if one.dtype == "bf16" else _wide)
    sides = [decode(side.array[cell]) for side in (one, two)]
    good = within_bound(sides[0], wanted) & within_bound(sides[1], wanted)
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = np.abs(sides[0] - sides[1]) / wanted.error
    near = apart[good & np.isfinite(apart)]
    found.worst = max(found.worst, float(near.max(initial=0.0)))
    held = one.array[cell]
    if good.shape != held.shape:
        # Decoded values are not one an element: a cell is accepted or not as a whole.
        whole = good.reshape(good.shape[0], -1).all(axis=1)
        return np.broadcast_to(whole.reshape(-1, *[1] * (held.ndim - 1)), held.shape)
    return good


def _wide(cells: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    with np.errstate(invalid="ignore"):  # a signalling NaN turns quiet
        return cells.astype(np.float64)
