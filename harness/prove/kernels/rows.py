"""What a check of one kernel for one target found, as plain values: for tables, caches and code review."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kvproof.harness.ir.reader import Location
from kvproof.harness.prove.kernels.check import Failure, PropertyResult
from kvproof.reports.verdict import Status, Verdict


@dataclass(frozen=True)
class Place:
    """A line of source."""

    file: str
    line: int


@dataclass(frozen=True)
class Fault:
    """One thing that is not PASS.

    Attributes:
        status: FAIL, UNKNOWN or UNSUPPORTED.
        words: what, with a counterexample if there is one.
        places: the line, and its callers'.
        tensor: the tensor concerned, if one is.
    """

    status: str
    words: str
    places: tuple[Place, ...]
    tensor: str = ""


@dataclass(frozen=True)
class Row:
    """One property of one kernel for one target.

    Attributes:
        kernel: the kernel.
        target: the GPU.
        prop: the property.
        status, reason, assumptions, bounds: its verdict.
        questions: questions asked.
        seconds: time they took.
        faults: what is not PASS.
        setting: what was fixed.
    """

    kernel: str
    target: str
    prop: str
    status: str
    reason: str
    assumptions: tuple[str, ...]
    bounds: tuple[str, ...]
    questions: int
    seconds: float
    faults: tuple[Fault, ...]
    setting: str = ""

    @property
    def verdict(self) -> Verdict:
        """The verdict."""
        return Verdict(Status(self.status), self.reason, self.assumptions, self.bounds)


def row_of(kernel: str, target: str, setting: str, result: PropertyResult) -> Row:
    """A property's result as plain values."""
    verdict = result.verdict
    return Row(
        kernel,
        target,
        str(result.property),
        str(verdict.status),
        verdict.reason,
        verdict.assumptions,
        verdict.bounds,
        result.questions,
        round(result.seconds, 3),
        tuple(_fault(failure) for failure in result.failures),
        setting,
    )


def _fault(failure: Failure) -> Fault:
    found = failure.found
    places = [*_places(found.location), *(_places(found.other) if found.other else ())]
    return Fault(str(failure.status), str(failure), tuple(places), found.buffer)


def _places(location: Location) -> Sequence[Place]:
    own = [f for f in location.frames if not f.file.startswith("triton/")] or list(location.frames)
    return [Place(frame.file, frame.line) for frame in own]


def rows_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows as JSON values."""
    return [asdict(row) for row in rows]


def rows_from_json(data: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The rows that :func:`rows_json` wrote.

    Raises:
        KeyError, TypeError, ValueError: other data.
    """
    rows: list[Row] = []
    for entry in data:
        faults = tuple(
            Fault(f["status"], f["words"], tuple(Place(p["file"], p["line"]) for p in f["places"]), f["tensor"])
            for f in entry["faults"]
        )
        values = {
            **entry,
            "status": str(Status(entry["status"])),
            "faults": faults,
            "assumptions": tuple(entry["assumptions"]),
            "bounds": tuple(entry["bounds"]),
        }
        rows.append(Row(**values))
    return rows
