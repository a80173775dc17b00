"""Where a launch goes: to the real device, or to whoever has taken over launching for a while.

Launchers call ``launch(kernel, grid, *args, **meta)`` instead of ``kernel[grid](...)``. The interpreter and the
IR executor run the same launchers by installing a backend of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

Grid: TypeAlias = tuple[int, ...]
Backend: TypeAlias = Callable[..., None]
"""Called as ``backend(kernel, grid, *args, **meta)``."""

_backend: ContextVar[Backend | None] = ContextVar("kvproof_launch_backend", default=None)


def launch(kernel: Any, grid: Grid, *args: Any, **meta: Any) -> None:
    """Launch a ``@triton.jit`` kernel on the current backend. An empty grid launches nothing."""
    if 0 in grid:
        return
    backend = _backend.get()
    if backend is None:
        kernel[grid](*args, **meta)
    else:
        backend(kernel, grid, *args, **meta)


def cdiv(a: int, b: int) -> int:
    """``ceil(a / b)`` on the host, of plain numbers: ``triton.cdiv`` looks for compile-time ones at every call."""
    return -(-a // b)


def next_power_of_2(n: int) -> int:
    """The smallest power of two of at least ``n``, on the host (see :func:`cdiv`); 0 of 0."""
    return 1 << (n - 1).bit_length() if n > 0 else 0


def current_backend() -> Backend | None:
    """Who has taken over launching; None if launches go to the real device."""
    return _backend.get()


@contextmanager
def launching_on(backend: Backend) -> Iterator[None]:
    """Send every launch of this context to ``backend``."""
    token = _backend.set(backend)
    try:
        yield
    finally:
        _backend.reset(token)
