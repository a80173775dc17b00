"""Production-size inputs of the slot copy: whole slots to a checkpoint, and pages of a transfer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from kvproof.kernels.benchmark import BenchCase, Cases
from kvproof.kernels.slot_copy.spec import slot_spans
from kvproof.models.contract import contiguous
from kvproof.models.deepseek_v4 import CONFIGS

SLOTS = 32


def cases() -> Mapping[str, BenchCase]:
    """By name: slots of the packed plane, and spans of 64 KiB in no order."""
    slots = {f"slots{n}": partial(_slots, n) for n in (1, 4, 16)}
    return Cases(slots | {f"pages{n}-64k": partial(_pages, n) for n in (64, 1024, 4096)})


def _slots(count: int) -> BenchCase:
    config = CONFIGS["v4-flash"]
    geometry, row_bytes = config.geometry(num_blocks=0, num_slots=SLOTS), config.planes[0].row_bytes
    chosen = np.random.default_rng(0).permutation(SLOTS)[:count]
    size = geometry.slot_bytes(row_bytes)
    return _case(slot_spans(geometry, row_bytes, chosen, np.arange(count)), SLOTS * size, count * size)


def _pages(count: int) -> BenchCase:
    page = 65_536 // 16
    order = np.random.default_rng(0).permutation(2 * count)[:count]
    spans = np.stack([order * page, np.arange(count) * page, np.full(count, page)], axis=1)
    return _case(spans, 2 * count * 65_536, count * 65_536)


def _case(spans: np.ndarray, source: int, target: int) -> BenchCase:
    return BenchCase(
        values={
            "source": contiguous("uint8", np.zeros(source, np.uint8)),
            "target": contiguous("uint8", np.zeros(target, np.uint8)),
            "spans": contiguous("int64", spans),
            "granule": 16,
        },
        bytes_moved=2 * target + 24 * len(spans),
    )
