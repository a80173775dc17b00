"""Samplers in processes of their own: two versions of the code, each in a worker, timed in turn."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, cast

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

    def sample(self, series: str, count: int) -> list[float]:
        """So many times of a series, in microseconds.

        Raises:
            WorkerError: the worker cannot time it.
        """
        stdin, stdout = cast("IO[str]", self._process.stdin), cast("IO[str]", self._process.stdout)
        try:
            stdin.write(json.dumps({"series": series, "count": count}) + "\n")
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
        return answer["samples"]

    def sampler(self, series: str) -> _Series:
        """One series as a sampler."""
        return _Series(self, series)

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


class _Series:
    """A sampler of one series of a worker."""

    def __init__(self, worker: Worker, name: str) -> None:
        self._worker = worker
        self._name = name

    def __call__(self, count: int) -> list[float]:
        return self._worker.sample(self._name, count)
