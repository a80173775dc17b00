"""Worker processes under a watchdog: whatever becomes of a worker, each of its tasks ends in an answer.

A worker has one task at a time. It says what it is doing in shared memory, where the parent looks once a second.
A worker that says nothing new for longer than its patience, or dies, or cannot even start costs the task that
it had, which is :class:`Lost` with what was being done; a new worker takes the next one.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import groupby
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from time import monotonic, sleep
from typing import Any, TypeAlias

# A new process rather than a copy of this one: a copy of a process with threads (a progress bar, a solver's timer)
# may hold a lock that nobody will ever release.
_processes = multiprocessing.get_context("spawn")

DEATHS_IN_A_ROW = 6
"""After so many workers that end without a single answer between them no further one is started."""

START_SECONDS = 120.0
"""A worker that is not ready so long after its start is given up."""

EXIT_SECONDS = 2.0

MEMORY_BYTES = 8 * 2**30
"""Address space of a worker: what needs more ends its worker, not the machine."""

_OUT_OF_MEMORY = 77
_WORDS = 240
_NEWS_AT_ONCE = 200
"""Few enough that a message always fits the pipe, so that the parent never waits for a worker to read it."""


@dataclass(frozen=True)
class Task:
    """Something to be done by a worker.

    Attributes:
        place: its place among all tasks.
        group: a worker keeps to one group as long as it has tasks, since it remembers what it has computed.
        argument: what the work function gets.
    """

    place: int
    group: str
    argument: Any


@dataclass(frozen=True)
class Lost:
    """In place of an answer: why there is none."""

    reason: str


Say: TypeAlias = Callable[[str], None]
News: TypeAlias = Sequence[tuple[str, Any]]
Work: TypeAlias = Callable[[Any, News], tuple[Any, Mapping[str, Any]]]
"""Does one task. Gets its argument and what other tasks have found; returns its answer and what it has found."""

Start: TypeAlias = Callable[[Any, Say], Work]
"""Makes the work function in a new process, from what every worker is told and a way to say what is being done."""


@dataclass
class _Worker:
    """A process, our end of the pipe to it, and the task that it has."""

    process: BaseProcess
    pipe: Connection
    words: Any
    task: Task | None = None
    group: str = ""
    ready: bool = False
    ended: bool = False
    told: int = 0
    said: bytes = b""
    heard: float = field(default_factory=monotonic)

    def silent(self) -> float:
        """Seconds since it last said something new."""
        said = self.words.raw
        if said != self.said:
            self.said, self.heard = said, monotonic()
        return monotonic() - self.heard

    def doing(self) -> str:
        """What it says that it is doing."""
        return self.words.value.decode(errors="replace").partition(" ")[2]

    def status(self) -> int | None:
        """Exit status of a process that has closed its pipe and so should be about to end; None if it does not."""
        until = monotonic() + EXIT_SECONDS
        # Not join(): to that, a process that has closed its files is one that has ended, and it waits for it.
        while self.process.exitcode is None and monotonic() < until:
            sleep(0.01)
        return self.process.exitcode

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


class Pool:
    """Workers for a list of tasks.

    Args:
        start: run first in each new process; importable by name.
        told: its argument; small, since it is written to a process that may not live to read it.
        size: processes.
        patience: seconds for which a worker may say nothing new.
        on_wait: told again and again what the workers are doing.
    """

    def __init__(self, start: Start, told: Any, size: int, *, patience: float, on_wait: Say | None = None) -> None:
        self._arguments = start, told
        self._size, self._patience, self._on_wait = size, patience, on_wait
        self._waiting: list[deque[Task]] = []
        self._begun: set[str] = set()
        self._found: dict[str, Any] = {}
        self._deaths = 0

    def run(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Any]]:
        """Do all tasks; each with its answer, or :class:`Lost`, in the order in which they end."""
        self._waiting = [deque(group) for _, group in groupby(tasks, key=lambda task: task.group)]
        workers: list[_Worker] = []
        try:
            for _ in range(min(self._size, len(tasks))):
                with _interrupts_held():  # one that is started is in the list, and so is ended below
                    workers.append(self._new())
            while workers:
                for place, worker in enumerate(list(workers)):
                    task = worker.task
                    answer = self._look(worker)
                    if worker.ended:
                        worker.stop()
                        if any(self._waiting) and self._deaths < DEATHS_IN_A_ROW:
                            with _interrupts_held():
                                workers[place] = self._new()
                    if answer is not None and task is not None:
                        yield task, answer
                workers = [worker for worker in workers if not worker.ended]
                self._pause(workers)
        finally:
            for worker in workers:
                worker.stop()
        for task in itertools.chain.from_iterable(self._waiting):
            yield task, Lost(f"{self._deaths} workers in a row ended without an answer, and no other was started")

    def _new(self) -> _Worker:
        ours, theirs = _processes.Pipe()
        words = _processes.RawArray("c", _WORDS)
        process = _processes.Process(
            target=_serve, args=(theirs, words, *self._arguments), daemon=True, name="kvproof-prover"
        )
        process.start()
        theirs.close()
        return _Worker(process, ours, words)

    def _look(self, worker: _Worker) -> Any:
        """The answer to a worker's task, if it has come to an end; a worker that is free gets its next one."""
        try:
            if worker.pipe.poll():
                answer, found = worker.pipe.recv()
                worker.heard, worker.task = monotonic(), None
                if worker.ready:
                    self._deaths = 0
                    for key, value in found.items():
                        self._found.setdefault(key, value)
                worker.ready = True
                self._assign(worker)
                return answer
        except (EOFError, OSError):
            return self._lost(worker, f"the process that did it {_ending(worker.status())}")
        silent = worker.silent()
        if silent > (self._patience if worker.ready else START_SECONDS):
            return self._lost(worker, f"stopped after {silent:.0f} s without a sign of life")
        return None

    def _lost(self, worker: _Worker, reason: str) -> Lost:
        worker.ended = True
        self._deaths += 1
        doing = worker.doing()
        return Lost(f"{reason}, {doing}" if doing else reason)

    def _assign(self, worker: _Worker) -> None:
        """Give a worker its next task: of its own group, of one that nobody has begun, or of the fullest one."""
        groups = [group for group in self._waiting if group]
        if not groups:
            worker.ended = True
            return
        own = [group for group in groups if group[0].group == worker.group]
        fresh = [group for group in groups if group[0].group not in self._begun]
        task = (own or fresh or [max(groups, key=len)])[0].popleft()
        self._begun.add(task.group)
        worker.task, worker.group = task, task.group
        news = list(itertools.islice(self._found.items(), worker.told, worker.told + _NEWS_AT_ONCE))
        worker.told += len(news)
        with suppress(OSError):  # one that has died is noticed when its answer is awaited
            worker.pipe.send((task.argument, news))

    def _pause(self, workers: Sequence[_Worker]) -> None:
        """Wait until a worker answers or dies, at most for a second."""
        if workers:
            wait([*(w.pipe for w in workers), *(w.process.sentinel for w in workers)], timeout=1.0)
            if self._on_wait:
                self._on_wait("; ".join(filter(None, (worker.doing() for worker in workers))))


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Within: an interrupt waits. A process started here never sees one, not even before it can say so itself."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    met: list[tuple[Any, ...]] = []
    # The mask is for the new process, which inherits it; here, some other thread may take the signal.
    handler = signal.signal(signal.SIGINT, lambda *given: met.append(given))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
        if met and callable(handler):
            handler(*met[0])


def _ending(status: int | None) -> str:
    """How a process ended, in words."""
    if status is not None and status < 0:
        with suppress(ValueError):
            return f"was ended by {signal.Signals(-status).name}"
    if status == _OUT_OF_MEMORY:
        return f"needs more than {MEMORY_BYTES // 2**30} GiB of memory"
    return "closed its pipe" if status is None else f"died with status {status}"


def _serve(pipe: Connection, words: Any, start: Start, told: Any) -> None:
    """Body of a worker process: one task after another until the parent goes away."""
    # An interrupt at the terminal reaches every process; the parent alone decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _limit_memory()
    numbers = itertools.count(1)

    def say(text: str) -> None:
        words.value = f"{next(numbers)} {text}".encode()[: _WORDS - 1]

    work = start(told, say)
    with suppress(EOFError, OSError):
        pipe.send((None, {}))
        while True:
            argument, news = pipe.recv()
            try:
                pipe.send(work(argument, news))
            except MemoryError:
                os._exit(_OUT_OF_MEMORY)  # what a solver holds after that is anyone's guess


def _limit_memory() -> None:
    if sys.platform != "win32":
        import resource  # noqa: PLC0415  (not everywhere)

        _, most = resource.getrlimit(resource.RLIMIT_AS)
        least = MEMORY_BYTES if most == resource.RLIM_INFINITY else min(MEMORY_BYTES, most)
        resource.setrlimit(resource.RLIMIT_AS, (least, most))
