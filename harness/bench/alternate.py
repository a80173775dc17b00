"""Samplers in processes of their own: two versions of the code, each in a worker, timed in turn."""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import selectors
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, cast

from kvproof.harness.bench.measure import Batch, Paired

TIMEOUT = 120.0
"""Seconds that one answer may take; the first compiles the kernel."""


class WorkerError(RuntimeError):
    """A worker died, hung or refused; the message says which."""


class Worker:
    """A process that times series of one tree. A context manager: leaving it ends the process.

    Args:
        source: folder to import kvproof from; None for the one that this process has.
        module: what the process runs.
        environment: further variables.
    """

    def __init__(
        self,
        source: Path | None = None,
        module: str = "kvproof.harness.bench.worker",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        variables = {**os.environ, **(environment or {})}
        paths = [str(source)] if source is not None else [p for p in sys.path if p]
        variables["PYTHONPATH"] = os.pathsep.join(paths)
        # The order of sets and hashes is a source of noise between processes that nobody wants to measure.
        variables.setdefault("PYTHONHASHSEED", "0")
        self._process = subprocess.Popen(  # noqa: S603  (this interpreter)
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=variables,
            text=True,
        )

    def sample(self, series: str, count: int, repeats: int = 0) -> tuple[list[float], int]:
        """(so many times of a series in microseconds, repetitions within one).

        Args:
            series: its name.
            count: how many.
            repeats: repetitions; 0 to let the worker find out.

        Raises:
            WorkerError: the worker cannot time it.
        """
        stdin, stdout = cast("IO[str]", self._process.stdin), cast("IO[str]", self._process.stdout)
        try:
            stdin.write(json.dumps({"series": series, "count": count, "repeats": repeats}) + "\n")
            stdin.flush()
        except OSError as error:
            raise WorkerError(f"{series}: the worker is gone: {error}") from None
        with selectors.DefaultSelector() as ready:
            ready.register(stdout, selectors.EVENT_READ)
            if not ready.select(TIMEOUT):
                self.close()
                raise WorkerError(f"{series}: no answer within {TIMEOUT:g} s")
        line = stdout.readline()
        if not line:
            raise WorkerError(f"{series}: the worker ended with status {self._process.wait(10)}")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(f"{series}: {answer['error']}")
        return answer["samples"], answer["repeats"]

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _where: TracebackType | None
    ) -> None:
        self.close()


@dataclass
class Turns:
    """What workers that took turns measured.

    Attributes:
        paired: of each series, batches of both sides.
        failed: of each series that could not be measured, why.
    """

    paired: dict[str, Paired]
    failed: dict[str, str]


PAIRS = 14
"""Pairs of processes of a comparison; 14 allow a p-value of 0.00012. Many series need more (``fewest_pairs``)."""

BATCH = 12
"""Samples of a series in a process."""


def affordable(
    source: Path | None, series: Sequence[str], seconds: float, pairs: int = PAIRS, batch: int = BATCH
) -> tuple[list[str], dict[str, str]]:
    """(series that pairs of processes can measure in so many seconds, why each other one is left out).

    One process measures each series once; those that cost least are taken.
    """
    allowed = seconds / (2 * pairs + 1)
    costs: dict[str, float] = {}
    without: dict[str, str] = {}
    begun = time.monotonic()
    with Worker(source) as worker:
        # No series: it answers once it has started, which every process has to do.
        with contextlib.suppress(WorkerError):
            worker.sample("", 1)
        allowed -= time.monotonic() - begun
        for name in series:
            started = time.monotonic()
            # Where even this one process takes longer than it may, the rest would be left out anyway.
            if started - begun > max(2 * allowed, 1.0) and costs:
                without[name] = f"a process took {started - begun:.1f} s with the series before it alone"
                continue
            try:
                _, repeats = worker.sample(name, 2)
                worker.sample(name, batch, repeats)
            except WorkerError as error:
                without[name] = str(error)
                continue
            costs[name] = time.monotonic() - started
    chosen: list[str] = []
    spent = 0.0
    for name, cost in sorted(costs.items(), key=lambda item: item[1]):
        if spent + cost > allowed:
            without[name] = (
                f"it takes {cost:.1f} s of each process; {2 * pairs} processes have {max(allowed, 0.0):.1f} s "
                f"each beside starting, of {seconds:.0f} s in all"
            )
            continue
        spent += cost
        chosen.append(name)
    return [name for name in series if name in chosen], without


def take_turns(
    old: Path | None,
    new: Path | None,
    series: Sequence[str],
    seed: int,
    pairs: int = PAIRS,
    batch: int = BATCH,
    seconds: float = math.inf,
) -> Turns:
    """Measure both sides in pairs of fresh processes, in drawn order.

    A process keeps for its whole life where its code and data happened to be placed, which can make one of two
    equal sides faster for good. So each block has processes of its own, and the test counts blocks.

    Args:
        old, new: folders to import kvproof from; None for the one that this process has.
        series: what to measure.
        seed: of the draw.
        pairs: blocks.
        batch: samples of a series in a process.
        seconds: no further pair is begun that would end later than this; fewer pairs then say less.
    """
    draw = random.Random(seed)  # noqa: S311  (no secret)
    batches: dict[str, list[tuple[Batch, Batch, bool]]] = {name: [] for name in series}
    repeats: dict[str, int] = {}
    failed: dict[str, str] = {}
    begun, longest = time.monotonic(), 0.0
    for _ in range(pairs):
        started = time.monotonic()
        if started - begun + longest > seconds:
            break
        new_first = draw.random() < 0.5
        taken: dict[bool, dict[str, Batch]] = {}
        for is_new in (new_first, not new_first):
            with Worker(new if is_new else old) as worker:
                taken[is_new] = _one_turn(worker, batches, batch, repeats, failed)
        for name, found in batches.items():
            if name not in failed:
                found.append((taken[False][name], taken[True][name], new_first))
        longest = max(longest, time.monotonic() - started)
    paired = {
        name: Paired(tuple(b[0] for b in found), tuple(b[1] for b in found), tuple(b[2] for b in found))
        for name, found in batches.items()
        if name not in failed
    }
    return Turns(paired, failed)


def _one_turn(
    worker: Worker, names: Iterable[str], batch: int, repeats: dict[str, int], failed: dict[str, str]
) -> dict[str, Batch]:
    found: dict[str, Batch] = {}
    for name in names:
        if name in failed:
            continue
        try:
            _, repeats[name] = worker.sample(name, 2, repeats.get(name, 0))
            found[name] = Batch(tuple(worker.sample(name, batch, repeats[name])[0]))
        except WorkerError as error:
            failed[name] = str(error)
    return found
