"""Fuzzing on all cores: a few worker processes, each with one task at a time.

A task that kills its process, or does not come back, costs that task alone: it becomes UNKNOWN, and a new
process takes the next one.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from time import monotonic

from kvproof.harness.cli.engines import FuzzTask, Turn, attempt, merged
from kvproof.reports.result import Result
from kvproof.reports.verdict import Status, Verdict

GRACE_SECONDS = 180.0
"""Beyond its budget, a task may compile, finish its last case and shrink a failure."""

MAX_WORKERS = 8

_MAX_TURNS = 6
_SHORTEST_TURN = 0.2
"""Seconds (by weight) below which a further turn is not worth its start."""

OVERTIME = 0.5
"""Part of the budget that tasks may use beyond it while they have not seen what they need: a slow or busy machine
should end in a verdict rather than in UNKNOWN for want of a few cases."""

# A new process rather than a copy of this one: a GPU's context does not survive a fork.
_processes = multiprocessing.get_context("spawn")


def worker_count(tasks: int) -> int:
    """As many workers as there are cores to use, and no more than tasks."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return max(1, min(cores, MAX_WORKERS, tasks))


def share(left_seconds: float, workers: int, weight: float, weight_left: float) -> float:
    """Time for the next task: its part of what is left, by weight. What a task leaves over goes to all after it.

    Never nothing: a task that comes after the budget is spent gets a moment, in which it runs too few cases and
    says so itself.

    Args:
        left_seconds: wall time left for all tasks.
        workers: tasks that run at a time.
        weight: weight of this task.
        weight_left: weight of all tasks not yet begun, this one included.
    """
    part = left_seconds * workers * weight / weight_left if weight_left > 0 else 0.0
    return max(min(part, left_seconds), 0.05)


@dataclass
class _Worker:
    """A process and the task that it has.

    Attributes:
        process, pipe: the process, and our end of the pipe to it.
        task: its task; None while it has none.
        place: the task's place among all.
        begun: when it got the task.
        patience: seconds after which it counts as stuck.
        spent: it is not to be used again: dead, stuck, or its GPU context may be lost.
    """

    process: BaseProcess
    pipe: Connection
    task: FuzzTask | None = None
    place: int = 0
    begun: float = 0.0
    patience: float = 0.0
    spent: bool = False

    def give(self, place: int, task: FuzzTask, turn: Turn) -> None:
        """Have the process run a turn of a task."""
        self.task, self.place, self.begun = task, place, monotonic()
        self.patience = turn.budget_seconds + GRACE_SECONDS
        with suppress(OSError):  # a process that has died is noticed when its answer is awaited
            self.pipe.send((task, turn))

    def answer(self) -> tuple[Result, bool] | None:
        """What has become of the task, and whether the engine came to an end; None while it runs."""
        assert self.task is not None
        seconds = monotonic() - self.begun
        try:
            if self.pipe.poll():
                result, ended = self.pipe.recv()
                self.spent = result.verdict.status is Status.FAIL and result.device != ""
                return result, ended
        except (EOFError, OSError):
            self.spent = True
            self.process.join()
            reason = f"the process that ran it died with status {self.process.exitcode}"
            return self.task.undecided(Verdict(Status.UNKNOWN, reason), seconds), False
        if seconds > self.patience:
            self.spent = True
            reason = f"it had not come back after {seconds:.0f} s and was stopped"
            return self.task.undecided(Verdict(Status.UNKNOWN, reason), seconds), False
        return None

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def run_tasks(tasks: Sequence[FuzzTask], budget_seconds: float, seed: int) -> Iterator[tuple[int, Result]]:
    """Fuzz on worker processes.

    First every task runs until it has seen what it needs, at most for its share of the budget. Tasks that fell
    short go on in the time that others left over, and then for ``OVERTIME`` of the budget more; what is left when
    none falls short is shared by all.

    Args:
        tasks: tasks.
        budget_seconds: wall time for all of them, overtime aside.
        seed: seed of everything drawn.

    Yields:
        (place of the task, its result so far); more than once for a task that goes on.
    """
    deadline = monotonic() + budget_seconds
    overtime = OVERTIME * budget_seconds
    results: dict[int, Result] = {}
    open_tasks = set(range(len(tasks)))
    with _Pool(worker_count(len(tasks))) as pool:
        for number in range(_MAX_TURNS):
            short = [p for p in open_tasks if p not in results or not results[p].verdict.passed]
            chosen = short or open_tasks
            weights = sum(tasks[place].weight for place in chosen)
            spent = number > 0 and (deadline - monotonic()) * pool.size < _SHORTEST_TURN * weights
            if spent and short and overtime:
                deadline, overtime, spent = deadline + overtime, 0.0, False
            if spent or not chosen:
                return
            # Long ones first, so that no core idles at the end behind one that began last.
            order = sorted(chosen, key=lambda place: (-tasks[place].weight, place))
            turn = Turn(0.0, seed, number, until_needs=bool(short))
            for place, result, ended in pool.run([(place, tasks[place]) for place in order], turn, deadline):
                earlier = results.get(place)
                results[place] = merged(tasks[place], earlier, result) if earlier and ended else result
                if not ended or results[place].verdict.status not in {Status.PASS, Status.UNKNOWN}:
                    open_tasks.discard(place)
                yield place, results[place]
            if not short:
                return


class _Pool:
    """The worker processes, for as long as the context lasts."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._workers: list[_Worker] = []

    def __enter__(self) -> _Pool:
        self._workers = [_start() for _ in range(self.size)]
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.stop()

    def run(
        self, tasks: Sequence[tuple[int, FuzzTask]], turn: Turn, deadline: float
    ) -> Iterator[tuple[int, Result, bool]]:
        """One turn of each task; yields (place, result, whether the engine came to an end by itself)."""
        waiting = list(reversed(tasks))

        def assign(worker: _Worker) -> None:
            weight_left = sum(task.weight for _, task in waiting)
            place, task = waiting.pop()
            seconds = share(deadline - monotonic(), self.size, task.weight, weight_left)
            worker.give(place, task, replace(turn, budget_seconds=seconds))

        for worker in self._workers[: len(waiting)]:
            assign(worker)
        while any(worker.task is not None for worker in self._workers):
            for number, worker in enumerate(self._workers):
                answer = None if worker.task is None else worker.answer()
                if answer is None:
                    continue
                worker.task, place = None, worker.place
                if worker.spent:
                    worker.stop()
                    self._workers[number] = _start()
                if waiting:
                    assign(self._workers[number])
                yield place, *answer
            _pause(self._workers)


def _start() -> _Worker:
    ours, theirs = _processes.Pipe()
    process = _processes.Process(target=_serve, args=(theirs,), daemon=True, name="kvproof-worker")
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _pause(workers: Sequence[_Worker]) -> None:
    """Wait until a worker answers or dies, or for a second, after which patience is looked at again."""
    busy = [worker for worker in workers if worker.task is not None]
    if busy:
        wait([*(worker.pipe for worker in busy), *(worker.process.sentinel for worker in busy)], timeout=1.0)


def _serve(pipe: Connection) -> None:
    """Body of a worker process: one task after another until the parent goes away."""
    # An interrupt at the terminal reaches every process; the parent alone decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError, OSError):
        while True:
            task, turn = pipe.recv()
            pipe.send(attempt(task, turn))
