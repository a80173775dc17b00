"""A small history with everything that a site shows: steps, seams, gaps, missing numbers, a finding."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from kvproof.reports.finding import Finding
from kvproof.reports.history.run import Counts, Missing, Run, Times
from kvproof.reports.history.series import timelines
from kvproof.reports.record import DeviceNote, Record
from kvproof.reports.result import Result
from kvproof.reports.site.build import build_site
from kvproof.reports.verdict import Status, Verdict

COMMITS = 40
SLOW_FROM = 34
NAUGHTY = "</script><script>throw new Error('escaped badly')</script> & \"quotes\""


def commit(place: int) -> str:
    """Hash of a generated commit."""
    return hashlib.sha256(f"commit {place}".encode()).hexdigest()[:40]


def runs() -> list[Run]:
    """Forty commits: one series becomes 5 % slower, one kernel's registers grow, a driver changes."""
    rng = np.random.default_rng(7)
    found: list[Run] = []
    for place in range(COMMITS):
        slow = 1.05 if place >= SLOW_FROM else 1.0
        levels = {"window_write/decode-b64-q1": 22.0 * slow, "row_scatter/rows4096": 41.0, "hca_head/b64": 6.0}
        times = [
            Times(
                name,
                (tuple(float(f"{level * (1 + 0.003 * x):.4f}") for x in rng.standard_normal(12)),),
                "flushed",
                "c0ffee00",
                "PASS" if name != "hca_head/b64" else "NOT_RUN",
                mhz=(1980.0,),
                celsius=(41.0,),
                bound=level * 0.8,
            )
            for name, level in levels.items()
            if place % 7 != 3 or name != "hca_head/b64"
        ]
        counted = {"instructions": 120 + 9 * (place >= 20), "registers": 22, "loads": 6, "code bytes": 2176}
        day = f"2026-08-{1 + place // 4:02}T{6 * (place % 4):02}:00:00Z"
        found.append(
            Run(
                started=day,
                target="builtin",
                commit=commit(place),
                parent=commit(place - 1) if place else "",
                committed=day,
                title=f"Change {place}" if place != 5 else NAUGHTY,
                machine={"host": "here"},
                device="NVIDIA H200",
                driver="580.1" if place < 12 else "590.2",
                versions={"torch": "2.11", "triton": "3.6"},
                times=tuple(times),
                counts=(Counts("window_write/decode-b64-q1", "cuda:90", counted, "c0ffee00", "PASS"),),
                missing=(Missing("split_attention", "FAIL", "correctness is red: a row is wrong"),),
            )
        )
    return found


def record() -> tuple[Record, Finding]:
    """A record with every verdict, and a finding."""
    finding = Finding(
        engine="kernel",
        property_name="split_attention",
        words="a launch changes what its contract says",
        subject="v4-flash",
        case={"kernel": "split_attention"},
        message="row 3 of the pool differs",
        expected="1.0",
        got="2.0",
        device="ir",
    )
    bad = Verdict(Status.FAIL, "row 3 of the pool differs")
    results = (
        Result(
            "v4-flash", "window rows", "prove", Verdict(Status.PASS, assumptions=("proved by z3 5.4.1",)), 0.1, 12
        ),
        Result("v4-pro", "window rows", "prove", Verdict(Status.UNKNOWN, "z3 gave up"), 0.1, 12),
        Result("row_scatter", "in bounds", "prove", Verdict(Status.PASS), 0.2, 9, device="cuda:90"),
        Result("row_scatter", "one writer", "prove", Verdict(Status.PASS), 0.2, 8, device="cuda:90"),
        Result("v4-flash", "row_scatter", "fuzz", Verdict(Status.PASS), 1.0, 300, {"padded token": 120}, "ir"),
        Result("v4-flash", "split_attention", "fuzz", bad, 1.0, 17, {}, "ir", findings=(finding,)),
        Result("every kernel", "every kernel", "fuzz", Verdict(Status.NOT_RUN, "no GPU here"), 0.0, device="cuda"),
    )
    made = Record(
        "2026-08-11T09:30:00Z",
        ("verify",),
        results,
        3.0,
        commit=commit(COMMITS - 1),
        devices=(DeviceNote("ir", True, "here"),),
    )
    return made, finding


def build(out: Path) -> Path:
    """The site of all that; returns its folder."""
    made, finding = record()
    build_site(out, timelines(runs()), [made], [finding], {"certificates": "12 in proofs.lock"})
    return out
