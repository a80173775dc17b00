"""Device time of a launch: graphs over rotating inputs, replayed with a flushed cache, timed by events."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from kvproof.harness.bench.timing import FLUSH_BYTES

SHORT = 15.0
"""Microseconds below which launches are packed into one graph: an event's own error is about half of one."""

PACKED = 20
"""Launches of a packed graph."""


class GraphSampler:
    """Times a launch on the current GPU. A sampler: called with a number, it returns so many times.

    A long launch is replayed alone after the cache was flushed. Of a short one, many are captured into one graph
    over the rotating inputs and the mean is taken; ``mode`` says which ("flushed" or "packed").

    Args:
        launches: the launch on each of the rotating inputs; each runs outside a graph first, which compiles it.
        flush: buffer that is written before a flushed replay; shared between samplers.
        packed: whether to pack; None decides by the time of a launch.
    """

    def __init__(
        self, launches: Sequence[Callable[[], object]], flush: torch.Tensor, packed: bool | None = None
    ) -> None:
        self._flush = flush
        self._turn = 0
        self._sets = [[launch] for launch in launches]
        self.renew()
        if packed is None:
            packed = min(self(8)) < SHORT
        self.mode = "packed" if packed else "flushed"
        if packed:
            self._sets = [[launches[i % len(launches)] for i in range(PACKED)]]
            self.renew()

    def renew(self) -> None:
        """Capture the launches anew: a graph and what is allocated within it may lie well or badly, for good."""
        self._graphs = [_captured(launches) for launches in self._sets]

    def __call__(self, count: int) -> list[float]:
        """So many times, in microseconds a launch."""
        pairs = [
            (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(count)
        ]
        for begin, end in pairs:
            graph = self._graphs[self._turn % len(self._graphs)]
            self._turn += 1
            # The flush also keeps the GPU busy while the host enqueues the replay, so that no gap is timed.
            self._flush.zero_()
            begin.record()
            graph.replay()
            end.record()
        torch.cuda.synchronize()
        return [begin.elapsed_time(end) * 1000.0 / len(self._sets[0]) for begin, end in pairs]


def flush_buffer() -> torch.Tensor:
    """A buffer several times as large as any cache."""
    return torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")


def _captured(launches: Sequence[Callable[[], object]]) -> torch.cuda.CUDAGraph:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for launch in launches:
            launch()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for launch in launches:
            launch()
    graph.replay()
    torch.cuda.synchronize()
    return graph
