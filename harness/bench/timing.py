"""GPU times: a launch captured into a graph, replayed with a flushed cache, timed by events."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

FLUSH_BYTES = 2**28
"""Bytes written before each timed replay: several times any cache."""


@dataclass(frozen=True)
class Timing:
    """Times of one launch, in microseconds.

    Attributes:
        median: median.
        low, high: first and third quartile.
    """

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, times: list[float]) -> Timing:
        """The timing of these times."""
        if len(times) < 4:
            return cls(statistics.median(times), min(times), max(times))
        low, _, high = statistics.quantiles(times, n=4)
        return cls(statistics.median(times), low, high)


class GraphTimer:
    """Times launches on the current GPU.

    Args:
        replays: timed replays of a launch.
    """

    def __init__(self, replays: int = 40) -> None:
        self.replays = replays
        self._flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")

    def time(self, launch: Callable[[], object]) -> Timing:
        """Time of one launch, replayed through a graph.

        The launch runs once outside the graph first, which compiles it.
        """
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            launch()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            launch()
        graph.replay()
        torch.cuda.synchronize()
        events = [
            (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
            for _ in range(self.replays)
        ]
        for begin, end in events:
            # The flush also keeps the GPU busy while the host enqueues the replay, so no gap is timed.
            self._flush.zero_()
            begin.record()
            graph.replay()
            end.record()
        torch.cuda.synchronize()
        return Timing.of([begin.elapsed_time(end) * 1000.0 for begin, end in events])


def host_time(call: Callable[[], object], repeats: int = 20) -> Timing:
    """Time of something that runs on the host, or on a CPU device."""
    call()
    times: list[float] = []
    for _ in range(repeats):
        begun = time.perf_counter()
        call()
        times.append((time.perf_counter() - begun) * 1e6)
    return Timing.of(times)
