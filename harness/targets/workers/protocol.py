"""What crosses between a worker and its campaign: framed JSON over a socket, tensors in shared memory.

Nothing is pickled, so a worker gone wrong can say something false but never make its campaign run anything. Every
frame and every tensor carries a checksum; what does not fit is :class:`CorruptReply` and ends the worker.
"""

from __future__ import annotations

import json
import mmap
import os
import socket
import struct
import tempfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kvproof.harness.check.codec import value_from_json, value_json
from kvproof.models.contract import STORAGE_DTYPES, TensorValue

_close = os.close  # the module may be gone before the last arena
MAGIC = b"kvpf"
VERSION = 1
HEADER = struct.Struct("<4sHHIII")
"""magic, version, kind, sequence number, payload bytes, crc32 of the payload."""

MOST_BYTES = 1 << 28
"""Payload of one frame, at most: more is a broken length."""

ALIGN = 256
"""Storages start at a multiple of this, which no kernel asks more of."""

REQUEST, REPLY = 1, 2


class CorruptReply(Exception):  # noqa: N818  (reads as what happened)
    """What came over the socket is no frame of this protocol, or a tensor's bytes are not those announced."""


class Closed(Exception):  # noqa: N818
    """The other side has closed the socket."""


def frame(kind: int, sequence: int, message: Mapping[str, Any]) -> bytes:
    """A message as bytes."""
    payload = json.dumps(message, separators=(",", ":")).encode()
    return HEADER.pack(MAGIC, VERSION, kind, sequence, len(payload), zlib.crc32(payload)) + payload


def read_frame(read: Callable[[int], bytes], kind: int, sequence: int | None = None) -> tuple[int, dict[str, Any]]:
    """The next message: (sequence number, message).

    Args:
        read: gives exactly so many bytes, or raises.
        kind: that it must have.
        sequence: that it must have; None takes any.

    Raises:
        CorruptReply: it is no such message.
    """
    magic, version, found, number, size, checksum = HEADER.unpack(read(HEADER.size))
    if magic != MAGIC or version != VERSION:
        raise CorruptReply(f"the frame starts with {magic!r}, version {version}")
    if found != kind or (sequence is not None and number != sequence):
        raise CorruptReply(f"a frame of kind {found} and number {number}; expected kind {kind}, number {sequence}")
    if size > MOST_BYTES:
        raise CorruptReply(f"a frame of {size} bytes; the longest has {MOST_BYTES}")
    payload = read(size)
    if zlib.crc32(payload) != checksum:
        raise CorruptReply(f"the checksum of a frame of {size} bytes is wrong")
    try:
        message = json.loads(payload)
    except (ValueError, RecursionError) as error:  # a reply may be nested without end
        raise CorruptReply(f"a frame holds no JSON: {error}") from error
    if not isinstance(message, dict):
        raise CorruptReply(f"a frame holds {type(message).__name__}, not an object")
    return number, message


def read_exactly(connection: socket.socket) -> Callable[[int], bytes]:
    """Reads so many bytes from a blocking socket.

    Raises:
        Closed: the other side is gone.
    """

    def read(count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = connection.recv(min(count - len(parts), 1 << 20))
            if not part:
                raise Closed
            parts += part
        return bytes(parts)

    return read


def checksum(data: npt.NDArray[np.uint8]) -> int:
    """Of a storage's bytes."""
    return zlib.crc32(data.data)


class Arena:
    """Memory that both processes see. Nameless, so it goes when both have gone, however they end.

    Args:
        descriptor: of an arena that another process has made; None makes one.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self.descriptor = _anonymous_file() if descriptor is None else descriptor
        self._map: mmap.mmap | None = None

    def reserve(self, size: int) -> None:
        """Make the arena at least so large."""
        if os.fstat(self.descriptor).st_size < size:
            os.ftruncate(self.descriptor, size + size // 2)

    def view(self, offset: int, size: int) -> npt.NDArray[np.uint8]:
        """Bytes of the arena, shared.

        Raises:
            CorruptReply: they lie outside it.
        """
        if offset < 0 or size < 0 or offset + size > os.fstat(self.descriptor).st_size:
            raise CorruptReply(f"bytes {offset}..{offset + size} lie outside the shared memory")
        if not size:
            return np.zeros(0, np.uint8)
        if self._map is None or len(self._map) < offset + size:
            self._map = mmap.mmap(self.descriptor, os.fstat(self.descriptor).st_size)
        return np.frombuffer(self._map, np.uint8, size, offset)

    def __del__(self) -> None:
        # Results are read out of it after their worker has gone, so it goes with its last user.
        try:
            _close(self.descriptor)
        except (OSError, TypeError):
            return  # at the interpreter's end even the function may be gone


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("kvproof", 0)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


@dataclass(frozen=True)
class Placed:
    """A storage in the arena."""

    offset: int
    size: int
    checksum: int


class Shipment:
    """The arguments of some launches, laid out in an arena. Tensors that share a storage keep sharing it."""

    def __init__(self) -> None:
        self._storages: dict[int, int] = {}
        self._arrays: list[npt.NDArray[Any]] = []
        self._end = 0
        self.offsets: list[int] = []

    def add(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """One launch's arguments as JSON values that name storages by number.

        Raises:
            TypeError: a value that has no JSON form.
        """
        return {name: self._one(name, value) for name, value in values.items()}

    def _one(self, name: str, value: Any) -> Any:
        if not isinstance(value, TensorValue):
            return value_json(name, value)
        number = self._storages.setdefault(id(value.storage), len(self._arrays))
        if number == len(self._arrays):
            self._arrays.append(value.storage)
            self.offsets.append(self._end)
            self._end += -(-value.storage.nbytes // ALIGN) * ALIGN
        return {
            "tensor": value.dtype,
            "shape": list(value.shape),
            "strides": list(value.strides),
            "offset": value.offset,
            "storage": number,
        }

    def send(self, arena: Arena) -> list[list[int]]:
        """Copy the storages into the arena; [offset, bytes, checksum] of each."""
        arena.reserve(self._end)
        placed: list[list[int]] = []
        for offset, array in zip(self.offsets, self._arrays, strict=True):
            data = np.ascontiguousarray(array).view(np.uint8)
            arena.view(offset, data.size)[:] = data
            placed.append([offset, data.size, checksum(data)])
        return placed


def unpack_values(values: Mapping[str, Any], placed: list[list[int]], arena: Arena) -> dict[str, Any]:
    """The arguments that :meth:`Shipment.add` wrote; their storages are the arena's own memory.

    Raises:
        CorruptReply: a tensor that does not fit, or bytes with another checksum.
    """
    storages: dict[int, npt.NDArray[Any]] = {}
    found: dict[str, Any] = {}
    for name, value in values.items():
        if not (isinstance(value, dict) and "storage" in value):
            found[name] = value_from_json(name, value)
            continue
        number = value["storage"]
        if number not in storages:
            storages[number] = _checked(name, placed, number, arena).view(STORAGE_DTYPES[value["tensor"]])
        found[name] = TensorValue(
            value["tensor"], storages[number], tuple(value["shape"]), tuple(value["strides"]), value["offset"]
        )
    return found


def _checked(name: str, placed: list[list[int]], number: int, arena: Arena) -> npt.NDArray[np.uint8]:
    try:
        offset, size, wanted = placed[number]
        data = arena.view(offset, size)
    except (IndexError, TypeError, ValueError) as error:
        raise CorruptReply(f"{name}: no storage {number}: {error}") from error
    if checksum(data) != wanted:
        raise CorruptReply(f"{name}: the checksum of its {size} bytes is wrong")
    return data
