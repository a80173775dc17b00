"""The stated minimum of each lifecycle fault. Run as a program, this states them, and their table, anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kvproof.harness.mutate.lifetimes.registry import Fault, all_faults
from kvproof.harness.simulate.operations import schedule_json
from kvproof.harness.simulate.schedule import Failure, find
from kvproof.harness.simulate.shrink import shrink
from kvproof.reports.store import write_atomically

MINIMA = Path(__file__).parents[1] / "data" / "lifetimes" / "minimal.json"
TABLE = Path(__file__).parents[2] / "docs" / "lifetimes.md"
MARKS = ("<!-- faults -->\n", "<!-- end of faults -->\n")


def smallest(fault: Fault) -> Failure:
    """The fault found by drawn schedules, and shrunk.

    Raises:
        LookupError: not found.
    """
    found = find(fault.world)
    if found is None:
        raise LookupError(fault.what)
    return shrink(fault.world, found)


def minima() -> dict[str, dict[str, Any]]:
    """The stated minimum of each fault: the check that finds it, and the schedule."""
    return json.loads(MINIMA.read_text(encoding="utf-8"))


def table(stated: dict[str, dict[str, Any]]) -> str:
    """The table of the documents."""
    lines = ["| fault | what is planted | found as | steps |", "| --- | --- | --- | --- |"]
    for name, fault in all_faults().items():
        given = stated[name]
        title = f"{name} ({fault.field})" if fault.field else name
        lines.append(f"| {title} | {fault.what} | {given['check']} | {len(given['schedule'])} |")
    return "\n".join(lines) + "\n"


def state() -> None:
    """Write the minima and the table anew."""
    stated: dict[str, dict[str, Any]] = {}
    for name, fault in all_faults().items():
        found = smallest(fault)
        stated[name] = {"check": found.broken.check, "schedule": schedule_json(found.schedule)}
        print(f"{name}: {found.broken.check}, {len(found.schedule)} operations")
    write_atomically(MINIMA, json.dumps(stated, indent=1) + "\n")
    if TABLE.exists():
        before, _, rest = TABLE.read_text(encoding="utf-8").partition(MARKS[0])
        write_atomically(TABLE, before + MARKS[0] + table(stated) + MARKS[1] + rest.partition(MARKS[1])[2])


if __name__ == "__main__":
    state()
