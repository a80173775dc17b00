"""Times in the form that pytest-benchmark writes and reads, both ways."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, cast

from kvproof.reports.errors import DamagedReportError
from kvproof.reports.history.run import ALIKE, Missing, Run, Times
from kvproof.reports.schema import JsonObject

MICRO = 1e-6


def to_pytest_benchmark(runs: Sequence[Run]) -> JsonObject:
    """Runs of one commit as one file of pytest-benchmark; its unit is the second."""
    if not runs:
        return {"machine_info": {}, "commit_info": {}, "benchmarks": [], "datetime": "", "version": "5.0.0"}
    first = runs[0]
    return {
        "machine_info": {**first.machine, "python_version": first.versions.get("python", "")},
        "commit_info": {
            "id": first.commit.split("+")[0],
            "time": first.committed or None,
            "dirty": first.commit.endswith("+dirty"),
            "project": first.target,
        },
        "benchmarks": [_benchmark(run, times) for run in runs for times in run.times if times.mode != ALIKE],
        "datetime": first.started,
        "version": "5.0.0",
    }


def _benchmark(run: Run, times: Times) -> JsonObject:
    data = [sample * MICRO for sample in times.samples]
    low, middle, high = statistics.quantiles(data, n=4) if len(data) > 1 else [data[0]] * 3
    mean = statistics.fmean(data)
    return {
        "group": times.name.split("/")[0],
        "name": times.name,
        "fullname": f"{run.target}::{times.name}[{run.device}]",
        "params": None,
        "param": None,
        "extra_info": {"device": run.device, "mode": times.mode, "check": times.check, "mhz": times.clock},
        "options": {},
        "stats": {
            "min": min(data),
            "max": max(data),
            "mean": mean,
            "stddev": statistics.stdev(data) if len(data) > 1 else 0.0,
            "rounds": len(data),
            "median": middle,
            "iqr": high - low,
            "q1": low,
            "q3": high,
            "ops": 1 / mean if mean else 0.0,
            "total": sum(data),
            "iterations": 1,
            "data": data,
        },
    }


def from_pytest_benchmark(data: Mapping[str, Any], target: str, device: str = "cpu") -> Run:
    """A file of pytest-benchmark as a run. Without ``--benchmark-save-data`` only its median is known.

    What has no usable time (0 s, from a function faster than the timer's step) is missing from the run, by name.

    Raises:
        DamagedReportError: it is none; names the field.
    """
    try:
        commit, machine = cast("JsonObject", data["commit_info"]), cast("JsonObject", data["machine_info"])
        found = [_times(cast("JsonObject", item)) for item in data["benchmarks"]]
        started = str(data["datetime"])[:19] + "Z"
        dirty = "+dirty" if commit.get("dirty") else ""
        when = str(commit.get("time") or "")
        return Run(
            started=started,
            target=target,
            commit=str(commit.get("id") or "unknown") + dirty,
            committed=when[:19] + "Z" if when else "",
            machine={"host": str(machine.get("node", machine.get("host", "")))},
            device=device,
            versions={"python": str(machine.get("python_version", ""))},
            times=tuple(times for times in found if not times.fault),
            missing=tuple(Missing(times.name, "UNKNOWN", times.fault) for times in found if times.fault),
        )
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise DamagedReportError(f"no file of pytest-benchmark: {type(error).__name__}: {error}") from error


def _times(item: JsonObject) -> Times:
    stats: JsonObject = item["stats"]
    data: list[float] = stats.get("data") or [stats["median"]]
    info: JsonObject = item.get("extra_info") or {}
    batches = (tuple(round(float(sample) / MICRO, 4) for sample in data),)
    return Times(str(item["name"]), batches, str(info.get("mode", "pytest-benchmark")), check="NOT_RUN")
