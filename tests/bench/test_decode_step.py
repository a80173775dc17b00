"""Every launch that places rows in a decode step of 61 layers, in one graph: ``pytest --benchmark-only``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvproof.harness.bench.decode_step import DecodeStep, bound
from kvproof.models.deepseek_v4 import CONFIGS, with_kv

pytest.importorskip("torch")


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("sequences", "queries", "context"), [(1, 1, 8192), (8, 4, 8192), (64, 1, 2048), (64, 4, 2048)]
)
def test_placing_rows_of_a_decode_step(
    sequences: int, queries: int, context: int, kvproof_device_time: Callable[..., Any], benchmark: Any
) -> None:
    step = DecodeStep(with_kv(CONFIGS["v4-pro"], "bf16"), sequences, queries, context)
    calls, results = bound(step.launches, "cuda")

    def launch() -> None:
        for call in calls:
            call()

    measured = kvproof_device_time(launch)
    benchmark.extra_info |= {"launches": len(calls), "bytes_moved": step.bytes_moved}
    benchmark.pedantic(launch, rounds=5)
    assert measured.samples
    # What the graph left: each layer's window rows, and as many entries as the tokens complete.
    pool = results()["2.pool"].storage.reshape(int(step.geometry.plane_rows), -1)
    written = int((pool != 0).any(axis=1).sum())
    entries = sum(int(step.entries(step.config.ratios[layer])[1].sum()) for layer in step.layers)
    assert (step.kv.storage.reshape(step.tokens, -1) != 0).any(axis=1).all(), "a row of zeros would not be seen"
    assert written == len(step.layers) * step.tokens + entries
