"""How long proofs take: cold, unchanged, with one change, for every size, and as layouts grow.

Run ``python tests/bench/bench_proofs.py``; ``--write`` puts its tables into docs/proofs.md. Times are wall-clock
of this process and its workers; CPU time stands beside them, since a busy machine stretches the former only.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from kvproof.harness.prove.campaign import pairs_of
from kvproof.harness.prove.certificates import DEFAULT_LOCK, Lock, load_lock, save_lock
from kvproof.harness.prove.locked import Pair, Proved, Setting, default_jobs, prove_locked, updated
from kvproof.harness.prove.systems import system_subjects
from kvproof.harness.prove.theorems import theorem_subjects
from kvproof.models.deepseek_v4 import CONFIGS, ModelConfig, real_configs
from kvproof.reports import environment

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "proofs.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
GROWTH = (43, 61, 128, 1024)


@dataclass
class Clock:
    """Seconds since it was started."""

    wall: float = 0.0
    cpu: float = 0.0


@contextmanager
def measured() -> Iterator[Clock]:
    """Fills in the clock at the end of the block."""
    clock, wall, cpu = Clock(), time.perf_counter(), _cpu()
    yield clock
    clock.wall, clock.cpu = time.perf_counter() - wall, _cpu() - cpu


def _cpu() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def run(pairs: Sequence[Pair], lock: Lock, setting: Setting) -> tuple[list[Proved], Clock]:
    """Prove, and see that everything is PASS: a time for anything else would mean nothing."""
    with measured() as clock:
        done = list(prove_locked(pairs, lock, setting))
    wrong = [item.result for item in done if not item.result.verdict.passed]
    if wrong:
        raise SystemExit(f"not PASS: {wrong[0].subject}, {wrong[0].property_name}: {wrong[0].verdict}")
    return done, clock


def campaigns(setting: Setting) -> Iterator[tuple[str, int, int, Clock]]:
    """Rows of the first table: what, obligations, queries to a solver, time."""
    configs, theorems = pairs_of(real_configs()), pairs_of(theorem_subjects())
    done, clock = run(configs, Lock(), setting)
    yield "all real configurations, cold", _queries(done), _asked(done), clock
    lock = updated(Lock(), setting.versions(), done)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "proofs.lock"
        save_lock(path, lock)
        with measured() as clock:
            again = list(prove_locked(configs, load_lock(path), setting))
        yield "the same, nothing changed", _queries(again), _asked(again), clock
    changed = [replace(c, block_size=512) if c.name == "v4-flash" else c for c in real_configs()]
    done, clock = run(pairs_of(changed), lock, setting)
    others = [item for item in done if item.result.subject != "v4-flash"]
    if _asked(others):
        raise SystemExit(f"{_asked(others)} questions about configurations that have not changed")
    yield "the same, block size of v4-flash changed (0 asked of the others)", _queries(done), _asked(done), clock
    done, clock = run(theorems, Lock(), setting)
    yield "the theorems for every size, cold", _queries(done), _asked(done), clock
    for system in ("schema", "scratch"):
        done, clock = run(pairs_of(system_subjects(system)), Lock(), setting)
        yield f"system {system}, cold", _queries(done), _asked(done), clock
    yield "`kvproof prove`, all of the above, nothing changed: the whole command", *_whole_command()


def _whole_command() -> tuple[int, int, Clock]:
    """The command, a second time: what the first one had to ask is then in its lock file."""
    with tempfile.TemporaryDirectory() as folder:
        lock = shutil.copy(ROOT / DEFAULT_LOCK, folder)
        variables = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "500"}
        command = [sys.executable, "-m", "kvproof", "prove", "--lock", lock]

        def prove() -> str:
            options = {"cwd": folder, "env": variables, "capture_output": True, "text": True, "timeout": 600}
            return subprocess.run(command, check=True, **options).stdout

        prove()
        with measured() as clock:
            told = prove()
    found = re.search(r"([0-9,]+) queries \([0-9,]+ from the lock file, ([0-9,]+) asked of solvers", told)
    if found is None or found[2] != "0":
        raise SystemExit(f"the second run asked again: {told[-500:]}")
    return int(found[1].replace(",", "")), 0, clock


def _queries(done: Sequence[Proved]) -> int:
    return sum(item.result.cases for item in done)


def _asked(done: Sequence[Proved]) -> int:
    return sum(item.asked for item in done)


def grown(layers: int, classes: int) -> ModelConfig:
    """A model with so many layers, of one, two or three classes."""
    patterns: dict[int, Callable[[int], tuple[int, ...]]] = {
        1: lambda n: (4,) * n,
        2: lambda n: (128, 4) * (n // 2) + (4,) * (n % 2),
        3: lambda n: (0, 0, *(4, 128) * ((n - 2) // 2), *(4,) * (n % 2)),
    }
    return replace(CONFIGS["v4-flash-mtp1"], name=f"{layers} layers", trunk_ratios=patterns[classes](layers))


def growth(setting: Setting) -> Iterator[tuple[int, list[Clock]]]:
    """Rows of the second table: layers, and the time for each number of classes (MTP adds a dense layer)."""
    for layers in GROWTH:
        clocks: list[Clock] = []
        for classes in (1, 2, 3):
            _, clock = run(pairs_of([grown(layers, classes)]), Lock(), setting)
            clocks.append(clock)
        yield layers, clocks


def tables(setting: Setting) -> Iterator[str]:
    """Both tables as Markdown lines."""
    solvers = " and ".join(f"{name} {version}" for name, version in setting.versions().items())
    where = f"{environment.machine()['processor']}, {os.cpu_count()} cores"
    yield f"{where}, {setting.jobs} workers; every obligation by {solvers}. Wall time contains the workers' start."
    yield ""
    yield "| what | queries | asked of a solver | wall | CPU |"
    yield "|---|---:|---:|---:|---:|"
    for name, queries, asked, clock in campaigns(setting):
        yield f"| {name} | {queries:,} | {asked:,} | {clock.wall:.1f} s | {clock.cpu:.1f} s |"
    yield ""
    yield "One configuration, one process, CPU seconds, by number of trunk layers and of their classes:"
    yield ""
    yield "| layers | 1 class | 2 classes | 3 classes |"
    yield "|---:|---:|---:|---:|"
    grew = dict(growth(replace(setting, jobs=0)))
    for layers, clocks in grew.items():
        yield f"| {layers} | " + " | ".join(f"{clock.cpu:.2f} s" for clock in clocks) + " |"
    times = (most.cpu / least.cpu for most, least in zip(grew[1024], grew[61], strict=True))
    yield "| 1024 against 61 | " + " | ".join(f"{factor:.1f}x" for factor in times) + " |"


def main() -> None:
    """Print the tables, and with ``--write`` put them into the documentation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/proofs.md")
    parser.add_argument("--jobs", type=int, default=default_jobs(), help="worker processes")
    options = parser.parse_args()
    lines: list[str] = []
    for line in tables(Setting(jobs=options.jobs)):
        print(line, flush=True)
        lines.append(line)
    if options.write:
        text = DOCS.read_text(encoding="utf-8")
        before, _, rest = text.partition(BEGIN)
        _, _, after = rest.partition(END)
        DOCS.write_text("\n".join([before + BEGIN, "", *lines, "", END + after]), encoding="utf-8")


if __name__ == "__main__":
    main()
