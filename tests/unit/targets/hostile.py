"""A package whose one function does what its folder's file ``mode`` says: what workers must survive."""

import ctypes
import os
import signal
import sys
from pathlib import Path

import numpy as np
import torch

_MODE = Path(__file__).with_name("mode")
if _MODE.read_text() == "import":
    raise ImportError("this module does not import")


def _corrupt() -> None:
    # What a wild write into the worker's own state could do: bytes on its socket that are no frame.
    os.write(int(sys.argv[1]), b"\x00" * 64)


def _allocate() -> None:
    kept = []
    while True:
        kept.append(np.ones(1 << 22))


def _exit() -> None:
    os._exit(7)


def _raise() -> None:
    raise RuntimeError("something of the project's own")


def _spin() -> None:
    while True:
        pass


_DEEDS = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "segfault": lambda: ctypes.string_at(0),
    "loop": _spin,
    "allocate": _allocate,
    "corrupt": _corrupt,
    "exit": _exit,
    "system exit": lambda: sys.exit(3),
    "raise": _raise,
}


def scatter(kv, dest_rows, batch_id_per_token, pool) -> None:
    """Rows to their destinations; with two tokens or more, first the deed."""
    mode = _MODE.read_text()
    if kv.shape[0] > 1 and mode in _DEEDS:
        _DEEDS[mode]()
    for t in range(kv.shape[0]):
        row = int(dest_rows[t])
        if int(batch_id_per_token[t]) >= 0 and 0 <= row < pool.shape[0]:
            pool[row].copy_(kv[t])


def scratch(n: int) -> torch.Tensor:
    """Nothing of any contract's."""
    return torch.zeros(n)
