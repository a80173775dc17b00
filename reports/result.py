"""The result of checking one property on one subject: a row of the table that a campaign ends with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kvproof.reports.finding import Finding
from kvproof.reports.verdict import Verdict

RECORD_SCHEMA = 1
"""Version of the JSON form of a record (a run's results and its environment)."""


FROM_LOCK = "from the lock file"
ASKED = "asked of solvers"
ALIKE = "repeats"
"""Events of a proof: how many of its queries an earlier run had answered, how many were put to solvers, and how
many this run had asked already."""


@dataclass(frozen=True)
class Result:
    """What one check found.

    Attributes:
        subject: configuration or kernel.
        property_name: property or statement.
        engine: "prove", "enumerate" or "fuzz".
        verdict: the verdict.
        seconds: wall time.
        cases: cases run; for a proof, the queries discharged.
        events: how many cases showed each event; for a proof, where the answers to its queries came from.
        device: where it ran; empty for what needs no device.
        target: whose code.
        findings: faults met, shrunk.
    """

    subject: str
    property_name: str
    engine: str
    verdict: Verdict
    seconds: float
    cases: int = 0
    events: Mapping[str, int] = field(default_factory=dict[str, int])
    device: str = ""
    target: str = "builtin"
    findings: tuple[Finding, ...] = ()
