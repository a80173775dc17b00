"""The process that runs foreign code: answers one request after the other until its campaign goes away.

Started as ``python -m kvproof.harness.targets.workers.child SOCKET ARENA...``. It decides nothing: what a result
means is for the campaign to say.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import resource
import socket
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kvproof.harness.targets.workers.protocol import (
    REPLY,
    REQUEST,
    Arena,
    Closed,
    checksum,
    frame,
    read_exactly,
    read_frame,
    unpack_values,
)

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Serve requests on the socket whose descriptor is the first argument."""
    faulthandler.enable()
    _die_with_parent()
    connection = socket.socket(fileno=int(arguments[0]))
    server = _Server([Arena(int(descriptor)) for descriptor in arguments[1:]])
    read = read_exactly(connection)
    with contextlib.suppress(Closed, BrokenPipeError, ConnectionResetError):
        while True:
            sequence, message = read_frame(read, REQUEST)
            reply = server.answer(message)
            connection.sendall(frame(REPLY, sequence, reply))
            if reply.get("last"):
                return


def _die_with_parent() -> None:
    """A worker in an endless loop would not notice that its campaign was killed."""
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415
        import signal  # noqa: PLC0415

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _limit_memory(budget: int) -> None:
    """Let the process grow by so many bytes of address space.

    Not with a GPU, whose driver reserves address space by the terabyte; there the campaign watches instead.
    """
    pages = int(open("/proc/self/statm").read().split()[0]) if sys.platform == "linux" else 0  # noqa: SIM115, PTH123
    most = pages * os.sysconf("SC_PAGESIZE") + budget
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _out_of_memory(error: BaseException | None) -> bool:
    """Whether memory was short somewhere below an error; the process is then not to be trusted any more."""
    while error is not None:
        if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
            return True
        error = error.__cause__ or error.__context__
    return False


class _Server:
    def __init__(self, arenas: list[Arena]) -> None:
        self.arenas = arenas
        self.session: Any = None

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """The reply to one request. Whatever it raises is told, not raised."""
        begun = time.perf_counter()
        try:
            reply: dict[str, Any] = self._answer(message)
        except MemoryError:
            # What a process can still do after this is anyone's guess.
            reply = {"status": "failed", "kind": "out of memory", "message": "MemoryError", "last": True}
        except SystemExit as error:
            reply = {"status": "failed", "kind": "exit", "message": f"the code exits with {error.code!r}"}
        except BaseException as error:
            reply = {"status": "failed", "kind": "error", "message": f"{type(error).__name__}: {error}"}
        reply["seconds"] = time.perf_counter() - begun
        return reply

    def _answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        request = message["request"]
        if request == "open":
            return self._open(message)
        if request == "run":
            return {
                "status": "done",
                "launches": [self._run(message, one) for one in message["launches"]],
            } | self._end
        handler: Callable[..., Any] = getattr(self.session, f"do_{request}")
        return {"status": "done", "value": handler(**message.get("arguments", {}))}

    def _open(self, message: Mapping[str, Any]) -> dict[str, Any]:
        from kvproof.harness.targets.session import Session  # noqa: PLC0415  (imports torch with a device)

        self._lost = ""
        self.session = Session(message["target"], message["device"])
        value = self.session.describe()
        if message.get("memory") and message["device"] not in {"cuda", "hip"}:
            _limit_memory(int(message["memory"]))
        return {"status": "done", "value": value}

    @property
    def _end(self) -> dict[str, Any]:
        """A process whose device is lost ends itself with its answer."""
        return {"last": True} if self._lost else {}

    def _run(self, message: Mapping[str, Any], one: Mapping[str, Any]) -> dict[str, Any]:
        from kvproof.harness.devices.base import AccessError, DeviceError, DeviceLostError  # noqa: PLC0415

        if self._lost:
            return {"status": "failed", "kind": "lost", "message": self._lost}
        placed = message["storages"]
        arena = self.arenas[message["arena"]]
        values = unpack_values(one["values"], placed, arena)
        try:
            results = self.session.run(one["contract"], values)
        except DeviceLostError as error:
            self._lost = str(error)
            return {"status": "failed", "kind": "lost", "message": str(error)}
        except AccessError as error:
            return {
                "status": "failed",
                "kind": error.kind,
                "message": str(error),
                "tensor": error.tensor,
                "element": error.element,
                "programs": error.programs,
            }
        except DeviceError as error:
            if _out_of_memory(error):
                self._lost = str(error)
                return {"status": "failed", "kind": "out of memory", "message": str(error)}
            return {"status": "failed", "kind": "device", "message": str(error)}
        return {"status": "done", "checksums": self._ship(arena, one["values"], placed, results)}

    def _ship(
        self, arena: Arena, described: Mapping[str, Any], placed: list[list[int]], results: Mapping[str, Any]
    ) -> dict[str, int]:
        """Put the tensors as they are now where they came from; the checksum of each storage by its number."""
        sums: dict[str, int] = {}
        for name, result in results.items():
            number = described[name]["storage"]
            offset, size, _ = placed[number]
            data = np.ascontiguousarray(result.storage).view(np.uint8)
            if str(number) not in sums and data.size == size:
                arena.view(offset, size)[:] = data
                sums[str(number)] = checksum(data)
        return sums


if __name__ == "__main__":
    main(sys.argv[1:])
