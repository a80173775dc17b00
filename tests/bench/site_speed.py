"""How long a large site takes, and how large its pages are: ``python tests/bench/site_speed.py [--out DIR]``.

A history of 1,000 commits and 300 series of times with steps, seams and noise is made and stored as runs are, then
read and turned into a site. Both times are printed; the site alone is what ``kvproof report`` does after reading.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from kvproof.reports.history.run import Counts, Run, Times
from kvproof.reports.history.series import timelines
from kvproof.reports.history.store import FolderHistory
from kvproof.reports.site.build import build_site


def made_runs(commits: int, series: int, seed: int = 0) -> Iterator[Run]:
    """Runs of consecutive commits: each series has a level, noise, and some steps; a driver changes half-way."""
    rng = np.random.default_rng(seed)
    levels = rng.uniform(5, 500, series)
    names = [f"kernel{i % 20}/case-{i // 20}" for i in range(series)]
    parent = ""
    for place in range(commits):
        stepped = rng.random(series) < 1.5 / commits
        levels = np.where(stepped, levels * rng.choice([0.9, 0.95, 1.04, 1.1], series), levels)
        commit = hashlib.sha256(f"{seed}-{place}".encode()).hexdigest()[:40]
        samples = levels[:, None] * (1 + 0.004 * np.abs(rng.standard_normal((series, 8))))
        day, second = divmod(place * 997, 86400)
        clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
        when = f"2026-{1 + day // 28:02}-{1 + day % 28:02}T{clock}Z"
        yield Run(
            started=when,
            target="builtin",
            commit=commit,
            parent=parent,
            committed=when,
            title=f"Change {place} of the generated history",
            machine={"host": "generated"},
            device="NVIDIA H200",
            driver="580.1" if place < commits // 2 else "590.2",
            versions={"torch": "2.11", "triton": "3.6"},
            times=tuple(
                Times(name, (tuple(round(float(s), 3) for s in row),), "flushed", "case", "PASS", mhz=(1980.0,))
                for name, row in zip(names, samples, strict=True)
            ),
            counts=(Counts("kernel0/case-0", "cuda:90", {"instructions": 100 + place // 300}, "case", "PASS"),),
        )
        parent = commit


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the times and sizes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=1000)
    parser.add_argument("--series", type=int, default=300)
    parser.add_argument("--out", type=Path, help="keep the site here")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        history = FolderHistory(Path(folder) / "history")
        for run in made_runs(given.commits, given.series):
            history.append(run)
        begun, cpu = time.perf_counter(), time.process_time()
        lines = timelines(history.runs())
        read = time.perf_counter()
        out = given.out or Path(folder) / "site"
        pages = build_site(out, lines)
        done, used = time.perf_counter(), time.process_time() - cpu
        sizes = {path.relative_to(out): path.stat().st_size for path in out.rglob("*") if path.is_file()}
        rest = {path: size for path, size in sizes.items() if path.name != "plotly.min.js"}
        largest = max(rest, key=lambda path: rest[path])
        print(f"{given.commits:,} commits x {given.series} series: {pages:,} pages")
        reading, making = read - begun, done - read
        print(f"reading {reading:.1f} s, site {making:.1f} s, together {done - begun:.1f} s, CPU {used:.1f} s")
        total = sum(rest.values()) / 1e6
        total = sum(rest.values()) / 1e6
        print(f"largest page or file: {largest}, {rest[largest]:,} bytes; all {total:.0f} MB")
        print(f"chart library: {sum(sizes.values()) - sum(rest.values()):,} bytes, one file")
    return 0


if __name__ == "__main__":
    sys.exit(main())
