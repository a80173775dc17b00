"""The fixture that measures device time, with pytest-benchmark: on a GPU, ``pytest --benchmark-only``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")


@pytest.mark.gpu
def test_a_copy_takes_as_long_as_its_bytes(kvproof_device_time: Callable[..., Any], benchmark: Any) -> None:
    source = [torch.randint(0, 255, (2**26,), dtype=torch.uint8, device="cuda") for _ in range(2)]
    target = torch.empty_like(source[0])
    once = kvproof_device_time(*(lambda s=s: target[: 2**25].copy_(s[: 2**25]) for s in source))
    twice = kvproof_device_time(*(lambda s=s: target.copy_(s) for s in source))
    benchmark.pedantic(lambda: None, rounds=1)
    assert benchmark.extra_info["device_us"] == twice.samples
    assert sorted(once.samples)[len(once.samples) // 2] < sorted(twice.samples)[len(twice.samples) // 2]
