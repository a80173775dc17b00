"""Runs one case on a device and compares every tensor, whole storage, bit by bit, with what its contract says.

A pool is a view somewhere inside a larger poisoned storage, so a stray write anywhere near is seen. What differs
is told as rows and positions: which token a row is for, whose row is there instead, what the row is in the plane.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kvproof.harness.check.places import place_of
from kvproof.harness.devices.base import AccessError, Device, DeviceError, DeviceLostError
from kvproof.kernels.registry import Kernel
from kvproof.kernels.shapes import shaped_for
from kvproof.models.contract import (
    Access,
    ConcreteArguments,
    Contract,
    TensorValue,
    bind,
    broken_clauses,
    expected_buffers,
    index_arrays,
    settle,
)
from kvproof.properties.strategies.cases import Case, Explain
from kvproof.properties.strategies.geometry import geometry_from_json

SHOWN_ROWS = 3
"""Rows of one tensor that a message describes; the others it counts."""

Bits = npt.NDArray[Any]


class CaseFailed(AssertionError):  # noqa: N818  (reads as what happened)
    """A launch did not do what its contract says.

    Attributes:
        kind: "content" (a tensor differs), "out of bounds", "collision" or "device" (the launch failed).
        message: what went wrong, as rows and positions.
        expected, got: the two sides.
    """

    def __init__(self, kind: str, message: str, expected: str, got: str) -> None:
        self.kind, self.message, self.expected, self.got = kind, message, expected, got
        super().__init__(f"{kind}: {message}")


class BadCaseError(ValueError):
    """A case breaks what the contract requires of a caller, so its outcome says nothing about the kernel."""


def check_case(kernel: Kernel, device: Device, case: Case, explain: Explain | None = None) -> None:
    """Run a case and compare.

    Args:
        kernel: what runs.
        device: where.
        case: the launch.
        explain: says what writes a cell; without it the contract's index names do.

    Raises:
        CaseFailed: the launch failed or a tensor is not as the contract says.
        BadCaseError: the case is outside the contract.
        DeviceLostError: the device cannot be used any more.
    """
    check = CaseCheck(kernel, device, case, explain)
    check.start()
    check.collect()
    check.judge()


class CaseCheck:
    """One case on its way: :func:`check_case` in steps, for a caller who does something else in between.

    A device of another process works while this one computes what to expect, or draws the next case. Of one device
    a launch must be collected before the next is started.

    Args:
        kernel, device, case, explain: as of :func:`check_case`.

    Raises:
        BadCaseError: the case is outside the contract.
    """

    def __init__(self, kernel: Kernel, device: Device, case: Case, explain: Explain | None = None) -> None:
        self.kernel, self.device, self.case = kernel, device, case
        contract = kernel.contract
        self._arguments = bind(contract, case.values)
        for clause, at in broken_clauses(contract, self._arguments):
            raise BadCaseError(f"{contract.name}: the case breaks {clause.name!r} ({clause.words}) at {at}")
        self._report = _Report(contract, self._arguments, case, explain)
        self._outcome: Callable[[], Mapping[str, TensorValue]] | None = None
        self._expected: dict[str, Any] = {}
        self._got: Mapping[str, TensorValue] | DeviceError | None = None
        # Launchers of other projects, and those in another process, choose their own shapes.
        here = isinstance(kernel, Kernel) and not hasattr(device, "submit")
        self._rows = case.shaped_for if here else 0

    def start(self) -> None:
        """Begin the launch, and compute what to expect of it."""
        contract, values = self.kernel.contract, self.case.values
        submit = getattr(self.device, "submit", None)
        self._outcome = submit(self.kernel, values) if submit is not None else self._run
        expected = {t.name: values[t.name] for t in contract.tensors}
        self._expected = expected | expected_buffers(contract, values, self._arguments)

    def _run(self) -> Mapping[str, TensorValue]:
        with shaped_for(self._rows):
            return self.device.run(self.kernel, self.case.values)

    def collect(self) -> None:
        """Wait for the launch.

        Raises:
            DeviceLostError: the device cannot be used any more.
        """
        assert self._outcome is not None, "start() comes first"
        try:
            self._got = self._outcome()
        except DeviceLostError:
            raise
        except DeviceError as error:
            self._got = error

    def judge(self) -> None:
        """Compare.

        Raises:
            CaseFailed: the launch failed or a tensor is not as the contract says.
        """
        try:
            self._judge()
        except CaseFailed as failure:
            if not self._rows:
                raise
            shape = f" (in the shape of a launch of {self._rows:,} rows)"
            raise CaseFailed(failure.kind, failure.message + shape, failure.expected, failure.got) from failure

    def _judge(self) -> None:
        contract, report, got = self.kernel.contract, self._report, self._got
        assert got is not None, "collect() comes first"
        if isinstance(got, AccessError):
            raise report.access_error(got) from got
        if isinstance(got, DeviceError):
            raise CaseFailed("device", str(got), "the launch runs", str(got)) from got
        settle(contract, self._arguments, self._expected, got)
        for tensor in contract.tensors:
            before = self.case.values[tensor.name]
            if before is not None:
                report.compare(tensor.name, before, self._expected[tensor.name], got[tensor.name])


class _Report:
    """Compares tensors of one case and finds the words for what differs."""

    def __init__(
        self, contract: Contract, arguments: ConcreteArguments, case: Case, explain: Explain | None
    ) -> None:
        self.contract = contract
        self.arguments = arguments
        self.case = case
        self.explain = explain or _by_index_names
        layout = case.layout
        self.space = geometry_from_json(layout["geometry"]) if "geometry" in layout else None
        self.base_row = self.space.layer_base_row(layout["layer"]) if self.space and "layer" in layout else 0

    def compare(self, name: str, before: TensorValue, expected: TensorValue, got: TensorValue) -> None:
        """Raise unless the storages agree in every bit that the contract settles."""
        if got.storage.shape != expected.storage.shape or got.dtype != expected.dtype:
            message = f"{name} came back with {got.storage.size} elements of {got.dtype}"
            raise CaseFailed("content", message, f"{expected.storage.size} elements of {expected.dtype}", message)
        differs = bits_of(got.storage) != bits_of(expected.storage)
        for access in self.contract.writes:
            if access.mode == "may" and access.buffer == name:
                self._forgive(access, before, differs)
        wrong = np.flatnonzero(differs)
        if not wrong.size:
            return
        rows = list(dict.fromkeys(self._row(before, int(e)) for e in wrong))
        shown = rows[:SHOWN_ROWS]
        lines = [(self.where(name, row), *self._sides(name, row, before, expected, got, wrong)) for row in shown]
        message = "; ".join(f"{where}: expected {wanted}, got {found}" for where, wanted, found in lines)
        if len(rows) > len(shown):
            message += f"; and {len(rows) - len(shown)} more rows"
        raise CaseFailed(
            "content",
            message,
            "; ".join(f"{where}: {wanted}" for where, wanted, _ in lines),
            "; ".join(f"{where}: {found}" for where, _, found in lines),
        )

    def access_error(self, error: AccessError) -> CaseFailed:
        """The failure that a device saw while the kernel ran."""
        value = self.case.values.get(error.tensor)
        where = ""
        if isinstance(value, TensorValue):
            row = self._row(value, error.element)
            where = f"{self.where(error.tensor, row)}: "
        wanted = {
            "collision": "each element is written by one program, once",
            "out of bounds": "every access lies inside an argument",
        }.get(error.kind, "the launch runs")
        return CaseFailed(error.kind, f"{where}{error}", wanted, str(error))

    def where(self, name: str, row: int) -> str:
        """A row of a tensor, and what it is in the plane if the tensor is the pool."""
        value = self.case.values[name]
        unit = "row" if len(value.shape) > 1 else "element"
        text = f"{name} {unit} {row}"
        rows = value.shape[0] if value.shape else 1
        notes = [] if 0 <= row < rows else ["outside the view"]
        if self.space is not None and name.startswith("pool"):
            plane_row = self.base_row + row
            notes.append(f"plane row {plane_row}: {place_of(self.space, plane_row)}")
        return f"{text} ({', '.join(notes)})" if notes else text

    def _row(self, value: TensorValue, element: int) -> int:
        """First view coordinate of a storage element; outside 0..rows for one before or after the view."""
        stride = value.strides[0] if value.strides else 1
        return (element - value.offset) // max(stride, 1)

    def _forgive(self, access: Access, before: TensorValue, differs: npt.NDArray[np.bool_]) -> None:
        """Cells that a kernel may write, but need not, can hold anything."""
        cells, _ = self._cells(access)
        allowed = TensorValue(
            "uint8", np.zeros(differs.size, np.uint8), before.shape, before.strides, before.offset
        )
        if cells[0].size:
            allowed.array[cells] = 1
        differs &= allowed.storage == 0

    def _cells(
        self, access: Access
    ) -> tuple[tuple[npt.NDArray[np.int64], ...], tuple[npt.NDArray[np.int64], ...]]:
        """(coordinates, indices) of an access's live elements."""
        a = self.arguments
        indices = index_arrays(access.over, a)
        live = np.broadcast_to(np.asarray(access.when(a, *indices), bool), indices[0].shape)
        chosen = tuple(column[live] for column in indices)
        cells = access.cell(a, *chosen)
        return tuple(np.broadcast_to(np.asarray(c, np.int64), chosen[0].shape) for c in cells), chosen

    def _sides(
        self,
        name: str,
        row: int,
        before: TensorValue,
        expected: TensorValue,
        got: TensorValue,
        wrong: npt.NDArray[np.int64],
    ) -> tuple[str, str]:
        """(expected, got) of one row, in words."""
        element = next(int(e) for e in wrong if self._row(before, int(e)) == row)
        if self._beside(before, element):
            return "untouched elements between rows", _element(got, element)
        owner = self._writer(name, row, before, element)
        found = self._content(name, row, before, got)
        if owner is None:
            return "what was there before", found
        if found.startswith("bits "):
            return f"{owner}: {_element(expected, element)}", _element(got, element)
        return owner, found

    def _beside(self, value: TensorValue, element: int) -> bool:
        """Whether an element lies behind the columns of its row."""
        if len(value.shape) < 2:
            return False
        return (element - value.offset) % max(value.strides[0], 1) >= value.strides[1] * value.shape[1]

    def _writer(self, name: str, row: int, value: TensorValue, element: int) -> str | None:
        """What the contract has written to an element (or to its row as a whole); None if nothing."""
        for access in self.contract.writes:
            if access.buffer != name or access.mode != "must":
                continue
            cells, indices = self._cells(access)
            # A cell of fewer coordinates than the tensor has stands for the whole row that it leads to.
            whole_row = len(cells) < len(value.shape)
            place = value.offset + sum(c * s for c, s in zip(cells, value.strides, strict=False))
            hits = np.flatnonzero(cells[0] == row if whole_row else place == element)
            if hits.size:
                at = {index.name: int(column[hits[0]]) for index, column in zip(access.over, indices, strict=True)}
                return self.explain(self.arguments, access, at)
        return None

    def _content(self, name: str, row: int, before: TensorValue, got: TensorValue) -> str:
        """What a row holds: what it held before, a row of another argument, or bits of no known origin."""
        held, former = row_bits(got, row), row_bits(before, row)
        if np.array_equal(held, former):
            return "what was there before"
        for other in self.contract.tensors:
            source: TensorValue | None = self.case.values[other.name]
            if other.name == name or source is None or len(source.shape) != 2 or source.dtype != before.dtype:
                continue
            if source.shape[1] == held.size:
                hits = np.flatnonzero((bits_of(source.array) == held).all(axis=1))
                if hits.size:
                    return f"row {hits[0]} of {other.name}"
        return "bits " + " ".join(f"{int(b):0{2 * held.itemsize}x}" for b in held[:4]) + " ..." * (held.size > 4)


def _by_index_names(_a: Any, access: Access, at: Mapping[str, int]) -> str:
    return f"{access.words} ({', '.join(f'{name} = {value}' for name, value in at.items())})"


def bits_of(values: Bits) -> Bits:
    """Elements as unsigned integers of their width, so that a NaN equals itself and -0.0 differs from 0.0."""
    contiguous = np.ascontiguousarray(values)
    return contiguous.view(f"u{contiguous.dtype.itemsize}")


def _element(value: TensorValue, element: int) -> str:
    item = value.storage[element]
    wide = item.dtype.kind in "iu" and item.dtype.itemsize > 2
    return str(int(item)) if wide else hex(int(bits_of(item)[0]))


def row_bits(value: TensorValue, row: int) -> Bits:
    """The bits of a row, which may lie before or after the view; as much of it as the storage has."""
    if 0 <= row < (value.shape[0] if value.shape else 1):
        return bits_of(np.atleast_1d(value.array[row] if value.shape else value.array)).reshape(-1)
    start = value.offset + row * (value.strides[0] if value.strides else 1)
    columns = value.shape[1] if len(value.shape) > 1 else 1
    return bits_of(value.storage[max(start, 0) : max(start + columns, 0)])
