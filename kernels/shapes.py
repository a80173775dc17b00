"""How much each program of a launch takes, chosen for how much there is to do.

A shape changes no result, so small cases can be launched in the shapes of large ones: inside :func:`shaped_for`
every choice here is made as though the launch had so many rows (tokens, cells or spans). Fuzzing and the checker
of compiled kernels reach in this way what production sizes launch; nothing else sets it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from kvproof.kernels.launch import cdiv, next_power_of_2

ROW_TILE_BYTES = 8192
"""Most bytes of one program's tile: four accesses of 16 bytes in flight for each of 128 threads."""

ROW_PROGRAMS = 1024
"""Programs that fill a large GPU several times over; a smaller batch gets smaller tiles, not fewer programs."""

GROUP_PROGRAMS = 2048
"""Programs of a warp or two that fill a large GPU."""

HEAD_GROUPS, PREFILL_GROUPS = 256, 128
"""HCA groups that a program of two warps, and one of one warp, writes at a time: four a thread."""

SPAN_TILE_BYTES = 8192
"""Bytes of a span's tile, as of a tile of rows."""

SPAN_PROGRAMS = 2112
"""Programs that a large GPU holds at once: 16 for each of 132 multiprocessors."""

MEDIUM_BATCH, LARGE_BATCH = 256, 512
"""From so many tokens on, one program translates up to 512 entries of a token, by four warps and by two; below,
128, so that more run at once."""

_instead: ContextVar[int] = ContextVar("kvproof_launch_rows", default=0)


@contextmanager
def shaped_for(rows: int) -> Iterator[None]:
    """Give the launches of this context the shape that they would have with so many rows; 0: their own."""
    token = _instead.set(rows)
    try:
        yield
    finally:
        _instead.reset(token)


def row_tile(row_bytes: int, rows: int) -> tuple[int, int]:
    """(rows a program, warps a program) for ``rows`` rows of ``row_bytes`` bytes; both powers of two."""
    width = next_power_of_2(max(row_bytes, 1))
    most = max(ROW_TILE_BYTES // width, 1)
    wanted = next_power_of_2(max((_instead.get() or rows) // ROW_PROGRAMS, 1))
    taken = min(most, wanted)
    return taken, min(max(taken * width // (16 * 32), 1), 4)


def group_splits(tokens: int, most_groups: int, block: int) -> int:
    """Programs that share one token's groups: as many as fill a GPU, no more than there can be blocks of them."""
    wanted = max(GROUP_PROGRAMS // max(_instead.get() or tokens, 1), 1)
    return max(min(wanted, cdiv(most_groups, block)), 1)


def entry_tile(topk: int, tokens: int) -> tuple[int, int]:
    """(entries a program, warps a program) of ``topk`` entries a token."""
    tokens = _instead.get() or tokens
    block = min(next_power_of_2(topk), 512 if tokens >= MEDIUM_BATCH else 128)
    return block, max(block // (256 if tokens >= LARGE_BATCH else 128), 1)


def span_sharers(spans: int, most_bytes: int) -> int:
    """Programs that share one span of at most ``most_bytes`` bytes."""
    return min(max(SPAN_PROGRAMS // max(_instead.get() or spans, 1), 1), cdiv(most_bytes, SPAN_TILE_BYTES))
