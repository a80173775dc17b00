"""A worker as its campaign sees it: started when needed, watched, ended when it goes wrong, started anew."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kvproof
from kvproof.harness.targets.workers.outcomes import (
    Launched,
    Limits,
    NotReached,
    NotStarted,
    WorkerDied,
    signal_name,
)
from kvproof.harness.targets.workers.protocol import (
    REPLY,
    REQUEST,
    Arena,
    Closed,
    CorruptReply,
    Shipment,
    frame,
    read_frame,
)

WATCH_SECONDS = 0.05
"""How often a working process is looked at."""
TAIL_BYTES = 2000


@dataclass
class Worker:
    """One worker process, which is started at the first request and again after each death.

    Attributes:
        target: what it loads, as JSON values.
        device: device that it runs on.
        limits: what it may take.
        deaths: what each death was, in order.
        starts: processes started.
    """

    target: Mapping[str, Any]
    device: str
    limits: Limits = field(default_factory=Limits)
    deaths: list[str] = field(default_factory=list[str])
    starts: int = 0
    _process: subprocess.Popen[bytes] | None = None
    _connection: socket.socket | None = None
    _arenas: list[Arena] = field(default_factory=list[Arena])
    _log: Any = None
    _sequence: int = 0
    _unanswered: list[int] = field(default_factory=list[int])
    _first: int | None = None
    _replies: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    _fates: dict[int, WorkerDied] = field(default_factory=dict[int, WorkerDied])
    _busy: set[int] = field(default_factory=set[int])
    _broken: bool = False
    _answered: float = 0.0
    _base: int = 0
    _described: dict[str, Any] | None = None
    _refused: WorkerDied | None = None

    # ---- requests -------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """What the target offers; starts the worker if need be.

        Raises:
            NotStarted: it has loaded the target before, and does not start now.
            WorkerDied: it did not live to tell.
        """
        if self._refused is not None:
            raise self._refused
        if self._process is None:
            try:
                self._start()
            except WorkerDied:
                if self._described is None:
                    raise
                self._start_again()
        assert self._described is not None
        return self._described

    def ask(self, request: str, arguments: Mapping[str, Any], seconds: float | None = None) -> Any:
        """Call a method of the session by name.

        Raises:
            WorkerDied: the worker did not live to answer.
            RuntimeError: it raised; the message says what.
        """
        self.describe()
        reply = self._exchange({"request": request, "arguments": arguments}, seconds or self.limits.first_seconds)
        if reply.get("status") != "done":
            raise RuntimeError(str(reply.get("message", reply)))
        return reply.get("value")

    def run(self, launches: Sequence[tuple[str, Mapping[str, Any]]], seconds: float) -> Launched:
        """Run launches, one after the other, from one request.

        Args:
            launches: (contract, arguments).
            seconds: for all together.

        Raises:
            WorkerDied: the worker did not live to answer.
        """
        return self.start_run(launches, seconds)()

    def start_run(
        self, launches: Sequence[tuple[str, Mapping[str, Any]]], seconds: float
    ) -> Callable[[], Launched]:
        """Send the request of :meth:`run`; what it returns waits for the answer, and raises as that does.

        One more request may be sent before the answer is taken, so that the worker need not wait for it. A worker
        does one request after the other: what it dies of is the first that has no answer.

        Raises:
            NotReached: (by what is returned) the worker died of a request before this one.
        """
        self.describe()
        if len(self._busy) == len(self._arenas):
            self.close()  # answers that nobody took
            self.describe()
        shipment = Shipment()
        described = [{"contract": contract, "values": shipment.add(values)} for contract, values in launches]
        place = min(set(range(len(self._arenas))) - self._busy)
        arena, process = self._arenas[place], self._process
        placed = shipment.send(arena)
        self._busy.add(place)
        message = {"request": "run", "launches": described, "storages": placed, "arena": place}
        sent = time.monotonic()
        failed: list[WorkerDied] = []
        try:
            self._send(message, sent + seconds, seconds)
        except NotReached:
            pass
        except WorkerDied as died:
            failed.append(died)
        sequence = self._sequence

        def wait() -> Launched:
            if failed:
                raise failed[0]
            reply = self._receive(sequence, sent, seconds)
            if self._process is process:
                self._busy.discard(place)
            return Launched(reply, described, placed, arena)

        return wait

    # ---- the exchange -----------------------------------------------------------

    def _exchange(self, message: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        sent = time.monotonic()
        self._send(message, sent + seconds, seconds)
        return self._receive(self._sequence, sent, seconds)

    def _send(self, message: Mapping[str, Any], stop: float, seconds: float) -> None:
        """Send a message.

        Raises:
            NotReached: the worker is gone, or goes now, for what an earlier request did.
            WorkerDied: it is gone, and there is none.
        """
        connection = self._connection
        assert connection is not None
        self._sequence += 1
        data = memoryview(frame(REQUEST, self._sequence, message))
        try:
            while data:
                self._wait(stop, seconds, writing=True)
                with contextlib.suppress(BlockingIOError):
                    data = data[connection.send(data) :]
        except (BrokenPipeError, ConnectionResetError) as error:
            if self._unanswered:
                self._broken = True  # its last answers may still be there
                raise NotReached from error
            raise self._blamed(self._dead(), self._sequence) from error
        except WorkerDied as died:
            raise self._blamed(died, self._sequence) from died
        self._unanswered.append(self._sequence)

    def _receive(self, sequence: int, sent: float, seconds: float) -> dict[str, Any]:
        """The answer to a request, whatever comes before it.

        Args:
            sequence: of the request.
            sent: when it was sent. Its time begins when the one before it is done.
            seconds: for it.

        Raises:
            NotReached: its worker died of another.
            WorkerDied: its worker died of it.
        """
        while sequence not in self._replies:
            if sequence in self._fates:
                raise self._fates.pop(sequence)
            if sequence not in self._unanswered:
                if self._broken and not self._unanswered:
                    self._dead()
                raise NotReached
            self._next_reply(max(sent, self._answered) + seconds, seconds, sequence)
        return self._replies.pop(sequence)

    def _next_reply(self, stop: float, seconds: float, sequence: int) -> None:
        """Take the next answer in, whosesoever it is."""
        try:
            number, reply = read_frame(lambda count: self._read(count, stop, seconds), REPLY)
            if number != self._unanswered[0]:
                raise CorruptReply(f"an answer of number {number}; expected {self._unanswered[0]}")
        except CorruptReply as error:
            self._end()
            raise self._blamed(self._note("corrupt reply", str(error)), sequence) from error
        except (Closed, BrokenPipeError, ConnectionResetError) as error:
            raise self._blamed(self._dead(), sequence) from error
        except WorkerDied as died:
            raise self._blamed(died, sequence) from died
        self._unanswered.pop(0)
        self._answered = time.monotonic()
        self._replies[number] = reply
        if reply.get("last"):
            # It said what there is to say; its process is not to be used again.
            self.close()

    def _blamed(self, died: WorkerDied, sequence: int) -> Exception:
        """What a death is to the request ``sequence``: its own, or that of the first one that had no answer."""
        if self._first in (None, sequence):
            return died
        self._fates[self._first] = died
        return NotReached()

    def _read(self, count: int, stop: float, seconds: float) -> bytes:
        connection = self._connection
        assert connection is not None
        parts = bytearray()
        while len(parts) < count:
            self._wait(stop, seconds)
            with contextlib.suppress(BlockingIOError):
                part = connection.recv(count - len(parts))
                if not part:
                    raise Closed
                parts += part
        return bytes(parts)

    def _wait(self, stop: float, seconds: float, *, writing: bool = False) -> None:
        """Wait until the socket is ready. Ends a worker that takes too long or too much."""
        connection = self._connection
        assert connection is not None
        while True:
            left = stop - time.monotonic()
            sides: tuple[list[Any], list[Any]] = ([], [connection]) if writing else ([connection], [])
            # What has come is taken, however late it is looked for.
            readable, writable, _ = select.select(*sides, [], min(max(left, 0.0), WATCH_SECONDS))
            if readable or writable:
                return
            if left <= 0:
                self._end()
                raise self._note("hang", f"no answer in {seconds:g} s")
            grown = self._resident() - self._base
            if self._base and grown > self.limits.memory_bytes:
                self._end()
                raise self._note(
                    "out of memory", f"grew by {grown >> 20} MiB; allowed: {self.limits.memory_bytes >> 20}"
                )

    # ---- life and death ---------------------------------------------------------

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        # Two, so that a launch can be laid out while the one before it runs or is looked at.
        arenas = [Arena(), Arena()]
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the worker)
        paths = [str(Path(kvproof.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}
        for name in _LEFT_OUT:
            environment.pop(name, None)
        self._process = subprocess.Popen(  # noqa: S603  (this interpreter, a module of ours)
            [sys.executable, "-m", _CHILD, str(theirs.fileno()), *(str(arena.descriptor) for arena in arenas)],
            pass_fds=(theirs.fileno(), *(arena.descriptor for arena in arenas)),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env=environment,
        )
        theirs.close()
        ours.setblocking(False)
        self._connection, self._arenas, self._base = ours, arenas, 0
        self.starts += 1
        message = {
            "request": "open",
            "target": self.target,
            "device": self.device,
            "memory": self.limits.memory_bytes,
        }
        reply = self._exchange(message, self.limits.open_seconds)
        if reply.get("status") != "done":
            self.close()
            died = self._note("exit", f"the target does not load: {reply.get('message')}")
            if self._described is None:
                self._refused = died  # it has never loaded, and to try again says the same again
            raise died
        self._described = reply["value"]
        self._base = self._resident()

    def _start_again(self) -> None:
        """Start it once more: it has loaded before, so the machine may only have been slow.

        Raises:
            NotStarted: it does not start this time either; the message says so.
        """
        try:
            self._start()
        except WorkerDied as died:
            raise NotStarted(died.kind, f"it does not start again, twice: {died.detail}") from died

    def _resident(self) -> int:
        """Bytes of memory that the process has; 0 where that cannot be told."""
        if self._process is None or sys.platform != "linux":
            return 0
        try:
            text = Path(f"/proc/{self._process.pid}/statm").read_text(encoding="ascii")
        except OSError:
            return 0
        return int(text.split()[1]) * os.sysconf("SC_PAGESIZE")

    def _dead(self) -> WorkerDied:
        """What a worker that closed its socket died of."""
        process = self._process
        assert process is not None
        try:
            status = process.wait(10)
        except subprocess.TimeoutExpired:
            self._end()
            return self._note("exit", "it closed its connection and stayed")
        tail = self._tail()
        self.close()
        if status < 0:
            return self._note("killed", f"by signal {signal_name(-status)}{tail}")
        return self._note("exit", f"with status {status}{tail}")

    def _note(self, kind: str, detail: str) -> WorkerDied:
        died = WorkerDied(kind, detail)
        self.deaths.append(str(died))
        return died

    def _tail(self) -> str:
        """The last line that the process wrote, for the message."""
        if self._log is None:
            return ""
        self._log.flush()
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(size - TAIL_BYTES, 0))
        lines = [line for line in self._log.read().decode(errors="replace").splitlines() if line.strip()]
        fatal = [line for line in lines if line.startswith("Fatal")]
        return f": {(fatal or lines)[-1].strip()[:200]}" if lines else ""

    def _end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
        self.close()

    def close(self) -> None:
        """End the process, if there is one. The next request starts another."""
        process, self._process = self._process, None
        self._first = self._unanswered[0] if self._unanswered else None
        self._unanswered.clear()
        self._busy.clear()
        self._broken = False
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if process is not None:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(30)
        self._arenas = []
        if self._log is not None:
            self._log.close()
            self._log = None


_CHILD = "kvproof.harness.targets.workers.child"
# Triton's own switch would change what every device runs.
_LEFT_OUT = ("TRITON_INTERPRET", "PYTHONSTARTUP", "PYTHONHOME")
