"""What one run measured of one version of a target, as values and as JSON."""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from kvproof.reports.errors import DamagedReportError, ForeignVersionError
from kvproof.reports.schema import JsonObject, check

RUN_SCHEMA = 1
"""Version of the JSON form. Raised when a reader of the former one would misread it."""

ALIKE = "alike"
"""Mode of times that compare a version with itself: batches of both sides in turn, old, new, old, new."""

_FILE = f"run.v{RUN_SCHEMA}.json"


@dataclass(frozen=True)
class Times:
    """Raw times of one series.

    Attributes:
        name: of the series ("window_write/decode-b1-q1").
        batches: samples in microseconds, batch by batch.
        mode: how it was timed ("flushed", "packed", "host", :data:`ALIKE`); times of unlike modes do not compare.
        case: fingerprint of the inputs; times of unlike inputs do not compare.
        check: the correctness of what was timed; PASS, or what kept it from being known.
        settled: whether the spread that was asked for was reached.
        mhz, celsius: the device's clock and temperature after each batch, None where it does not say.
        bound: microseconds that the machine needs at least for the bytes and operations; None if unknown.
    """

    name: str
    batches: tuple[tuple[float, ...], ...]
    mode: str = "host"
    case: str = ""
    check: str = "NOT_RUN"
    settled: bool = True
    mhz: tuple[float | None, ...] = ()
    celsius: tuple[float | None, ...] = ()
    bound: float | None = None

    @property
    def fault(self) -> str:
        """Why nothing can be said of these times; empty for times that every reader can use."""
        if not self.batches or not all(self.batches):
            return "a batch without a time" if self.batches else "no times"
        if not all(0 < sample < math.inf for batch in self.batches for sample in batch):
            return "a time that is not above zero and finite"
        if self.mode == ALIKE and len(self.batches) % 2:
            return f"{len(self.batches)} batches of two sides, which are no pairs"
        return ""

    @property
    def samples(self) -> list[float]:
        """All samples in order."""
        return [sample for batch in self.batches for sample in batch]

    @property
    def median(self) -> float:
        """Median of all samples, in microseconds."""
        return statistics.median(self.samples)

    @property
    def clock(self) -> float | None:
        """Median clock rate in MHz: cycles are microseconds times it."""
        known = [rate for rate in self.mhz if rate is not None]
        return statistics.median(known) if known else None


@dataclass(frozen=True)
class Counts:
    """Numbers that are the same on every run: instructions, registers, spills, resource units, cases.

    Attributes:
        name: what was counted of ("window_write/decode-b1-q1").
        on: the GPU compiled for ("cuda:90"), or what counted ("z3", "fuzz").
        values: by metric.
        case, check: as in :class:`Times`.
    """

    name: str
    on: str
    values: Mapping[str, int]
    case: str = ""
    check: str = "NOT_RUN"


@dataclass(frozen=True)
class Missing:
    """A series without a number, and why."""

    name: str
    status: str
    reason: str


@dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
        started: when it began, in UTC.
        target: whose code ("builtin", "atom").
        commit, parent, committed, title: the target's version, its first parent, when it was committed and the
            first line of its message.
        kvproof: commit of the kvproof that measured.
        machine, versions: as in a record.
        device: a GPU's name, "cpu", or "offline".
        driver: version of the GPU's driver.
    """

    started: str
    target: str
    commit: str
    parent: str = ""
    committed: str = ""
    title: str = ""
    kvproof: str = ""
    machine: Mapping[str, str] = field(default_factory=dict[str, str])
    device: str = "offline"
    driver: str = ""
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    times: tuple[Times, ...] = ()
    counts: tuple[Counts, ...] = ()
    missing: tuple[Missing, ...] = ()

    @property
    def id(self) -> str:
        """Name among other runs: when, of what, and a hash of everything in it."""
        return run_name(self, run_text(self))


def run_name(run: Run, text: str) -> str:
    """Name of a run whose text is known."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    stamp = run.started.replace(":", "").replace("-", "")
    return f"{stamp}-{run.commit[:12] or 'none'}-{digest}"


def encode_run(run: Run) -> JsonObject:
    """A run as a JSON value."""
    return {
        "schema": f"kvproof/run/{RUN_SCHEMA}",
        "started": run.started,
        "target": run.target,
        "commit": run.commit,
        "parent": run.parent,
        "committed": run.committed,
        "title": run.title,
        "kvproof": run.kvproof,
        "machine": dict(run.machine),
        "device": run.device,
        "driver": run.driver,
        "versions": dict(run.versions),
        "times": [
            {
                "name": t.name,
                "case": t.case,
                "check": t.check,
                "mode": t.mode,
                "settled": t.settled,
                "batches": [list(batch) for batch in t.batches],
                "mhz": list(t.mhz),
                "celsius": list(t.celsius),
                "bound": t.bound,
            }
            for t in run.times
        ],
        "counts": [
            {"name": c.name, "on": c.on, "case": c.case, "check": c.check, "values": dict(c.values)}
            for c in run.counts
        ],
        "missing": [{"name": m.name, "status": m.status, "reason": m.reason} for m in run.missing],
    }


def run_text(run: Run) -> str:
    """A run as one line of text; equal runs have equal texts.

    Raises:
        DamagedReportError: it could not be read back.
        ValueError: a number that JSON has no form for.
    """
    value = encode_run(run)
    check(value, _FILE)
    _refuse_faults(run.times)
    return json.dumps(value, separators=(",", ":"), sort_keys=True, allow_nan=False) + "\n"


def decode_run(text: str, source: str) -> Run:
    """Read a run.

    Raises:
        DamagedReportError: not JSON, or not a run of this schema; names the source and the field.
        ForeignVersionError: a run of another version.
    """
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamagedReportError(f"{source}: not JSON: {error}") from error
    named = cast("JsonObject", value).get("schema") if isinstance(value, dict) else None
    if isinstance(named, str) and named.startswith("kvproof/run/") and named != f"kvproof/run/{RUN_SCHEMA}":
        raise ForeignVersionError(f"{source}: $.schema is {named!r}; this kvproof reads kvproof/run/{RUN_SCHEMA}")
    data = cast("JsonObject", value)
    try:
        check(value, _FILE)
        times = tuple(_times(item) for item in data["times"])
        _refuse_faults(times)
    except DamagedReportError as error:
        raise DamagedReportError(f"{source}: {error}") from error
    plain = {name: data[name] for name in data if name not in {"schema", "times", "counts", "missing"}}
    return Run(
        **plain,
        times=times,
        counts=tuple(Counts(**item) for item in data["counts"]),
        missing=tuple(Missing(**item) for item in data["missing"]),
    )


def _refuse_faults(times: Sequence[Times]) -> None:
    """Refuse what no schema sees: batches of two sides that are no pairs."""
    for place, one in enumerate(times):
        if one.fault:
            raise DamagedReportError(f"$.times[{place}] ({one.name}) has {one.fault}")


def _times(item: JsonObject) -> Times:
    batches = tuple(tuple(batch) for batch in item["batches"])
    lists = {"batches": batches, "mhz": tuple(item["mhz"]), "celsius": tuple(item["celsius"])}
    return Times(**cast("JsonObject", {**item, **lists}))
