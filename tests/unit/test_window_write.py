"""The window write's launcher and spec: each argument refused next to the nearest accepted; nothing written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from kvproof.harness.devices.interpret import InterpretDevice
from kvproof.kernels.launch import launching_on
from kvproof.kernels.registry import all_kernels, resolve
from kvproof.kernels.window_write.kernel import swa_write, tile
from kvproof.kernels.window_write.spec import first_written, written_rows
from kvproof.models.contract import bind, broken_clauses, contiguous, expected_buffers
from kvproof.models.row_space import UnifiedPoolGeometry, WindowParams
from kvproof.properties.strategies.cases import Case, all_kernel_properties

KERNEL = all_kernels()["window_write"]
WINDOW = WindowParams(ring_start=0, slot_rows=4, ring_slots=3, ring_stride=3, run_rows=3)


def arguments() -> dict[str, Any]:
    return {
        "kv": torch.arange(8, dtype=torch.bfloat16).reshape(4, 2),
        "positions": torch.arange(4, dtype=torch.int32),
        "cu_seqlens_q": torch.tensor([0, 1, 4], dtype=torch.int32),
        "state_slot_per_seq": torch.tensor([1, 0], dtype=torch.int32),
        "pool": torch.zeros(8, 2, dtype=torch.bfloat16),
        "window": WINDOW,
        "write_per_batch": 3,
    }


def launches(changed: dict[str, Any]) -> list[tuple[int, ...]]:
    """Grids that a call launches."""
    grids: list[tuple[int, ...]] = []
    with launching_on(lambda _kernel, grid, *_args, **_meta: grids.append(grid)):
        swa_write(**{**arguments(), **changed})
    return grids


ACCEPTED: dict[str, dict[str, Callable[[], Any]]] = {
    "longer buffers": {
        "positions": lambda: torch.arange(9, dtype=torch.int64),
        "cu_seqlens_q": lambda: torch.tensor([0, 1, 4, -7], dtype=torch.int32),
    },
    "row strides": {
        "kv": lambda: torch.zeros(4, 6, dtype=torch.bfloat16)[:, 1:3],
        "pool": lambda: torch.zeros(8, 6, dtype=torch.bfloat16)[:, 3:5],
    },
    "one stride for all rows": {"kv": lambda: torch.zeros(1, 2, dtype=torch.bfloat16).expand(4, 2)},
    "whole ring": {"write_per_batch": lambda: 3},
    "bytes": {
        "kv": lambda: torch.zeros(4, 2, dtype=torch.uint8),
        "pool": lambda: torch.zeros(8, 2, dtype=torch.uint8),
    },
    "an integer of numpy": {"write_per_batch": lambda: np.int64(2)},
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name: str) -> None:
    assert len(launches({key: make() for key, make in ACCEPTED[name].items()})) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"write_per_batch": 0},
        {
            "state_slot_per_seq": torch.zeros(0, dtype=torch.int32),
            "cu_seqlens_q": torch.zeros(1, dtype=torch.int32),
        },
    ],
)
def test_nothing_to_write_launches_nothing(changed: dict[str, Any]) -> None:
    assert launches(changed) == []


REFUSED: list[tuple[str, Any, type[Exception], str]] = [
    ("kv", None, ValueError, "kv must be given unless k_packed, k_rope and pool_rope are"),
    ("kv", torch.zeros(4, dtype=torch.bfloat16), ValueError, r"kv must have shape \[T, D\], got \[4\]"),
    ("kv", torch.zeros(4, 2, dtype=torch.int32), TypeError, "kv must be bfloat16 or float16 or float32 or uint8"),
    ("kv", torch.zeros(4, 2), TypeError, "pool must be float32, got bfloat16"),
    ("kv", torch.zeros(2, 4, dtype=torch.bfloat16).T, ValueError, "kv must have contiguous rows"),
    ("kv", torch.zeros(5, 2, dtype=torch.bfloat16), ValueError, "positions must have at least 5 elements"),
    ("kv", torch.zeros(4, 2, dtype=torch.bfloat16, device="meta"), ValueError, "positions is on cpu"),
    ("positions", torch.zeros(4), TypeError, "positions must be int32 or int64, got float32"),
    ("positions", torch.zeros(3, dtype=torch.int32), ValueError, "positions must have at least 4 elements"),
    ("positions", torch.zeros(8, dtype=torch.int32)[::2], ValueError, "positions must be contiguous"),
    ("cu_seqlens_q", torch.zeros(2, dtype=torch.int32), ValueError, "at least 3 elements for 2 slots, got 2"),
    ("cu_seqlens_q", torch.zeros(3, dtype=torch.int64), TypeError, "cu_seqlens_q must be int32, got int64"),
    ("state_slot_per_seq", torch.zeros(2, dtype=torch.int64), TypeError, "state_slot_per_seq must be int32"),
    ("state_slot_per_seq", torch.zeros(1, 2, dtype=torch.int32), ValueError, r"shape \[bs\]"),
    (
        "pool",
        torch.zeros(8, 3, dtype=torch.bfloat16),
        ValueError,
        r"pool must have shape \[rows, 2\], got \[8, 3\]",
    ),
    (
        "pool",
        torch.zeros(1, 2, dtype=torch.bfloat16).expand(8, 2),
        ValueError,
        "pool has rows of 2 elements that over",
    ),
    ("window", (0, 4, 3, 3, 3), TypeError, "window must be a WindowParams, got tuple"),
    ("window", replace(WINDOW, slot_rows=2**31), ValueError, r"window must have sizes below 2\*\*31"),
    ("write_per_batch", 4, ValueError, "write_per_batch must be an integer from 0 to 3, got 4"),
    ("write_per_batch", -1, ValueError, "write_per_batch must be an integer from 0 to 3, got -1"),
    ("write_per_batch", True, TypeError, "write_per_batch must be an integer from 0 to 3, got True"),
    ("write_per_batch", 1.0, TypeError, "got 1.0"),
]


@pytest.mark.parametrize(("name", "value", "error", "message"), REFUSED)
def test_refused(name: str, value: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        launches({name: value})


def test_largest_window_sizes_are_accepted() -> None:
    assert launches({"window": replace(WINDOW, slot_rows=2**31 - 1)})


@pytest.mark.parametrize(
    ("row_bytes", "per_batch", "wanted"),
    [
        (1024, 1, (1, 1)),
        (1024, 3, (4, 4)),
        (1024, 128, (4, 4)),
        (128, 8, (8, 1)),
        (128, 128, (32, 4)),
        (16384, 8, (1, 8)),
        (3, 0, (1, 1)),
    ],
)
def test_tiles_hold_whole_rows(row_bytes: int, per_batch: int, wanted: tuple[int, int]) -> None:
    assert tile(row_bytes, per_batch) == wanted


@pytest.mark.parametrize(
    ("start", "stop", "per_batch", "wanted"),
    [(0, 5, 3, 2), (0, 3, 3, 0), (0, 2, 3, 0), (4, 4, 3, 4), (4, 6, 0, 6), (4, 9, 1, 8)],
)
def test_the_last_tokens_are_written(start: int, stop: int, per_batch: int, wanted: int) -> None:
    assert first_written(start, stop, per_batch) == wanted


@pytest.mark.parametrize("name", ["row_index", "window_write"])
def test_production_cases_keep_the_contract(name: str) -> None:
    kernel = all_kernels()[name]
    for label, item in resolve(kernel.cases)().items():
        assert not list(broken_clauses(kernel.contract, bind(kernel.contract, item.values))), label
        assert item.bytes_moved > 0


@given(st.data())
@settings(deadline=None, derandomize=True, max_examples=200)
def test_the_contract_says_what_the_token_by_token_spec_says(data: st.DataObject) -> None:
    case: Case = data.draw(all_kernel_properties()["window_write"].cases(None))
    v = case.values
    pool, kv = v["pool"], v["kv"]
    owner = written_rows(
        v["positions"].array,
        v["cu_seqlens_q"].array,
        v["state_slot_per_seq"].array,
        pool.shape[0],
        v["window"],
        v["write_per_batch"],
    )
    wanted = pool.copy()
    for row, token in owner.items():
        wanted.array[row] = kv.array[token]
    got = expected_buffers(KERNEL.contract, v, bind(KERNEL.contract, v))["pool"]
    assert got.storage.tobytes() == wanted.storage.tobytes()


def test_positions_of_one_ring_row_overwrite_each_other_across_launches() -> None:
    space = UnifiedPoolGeometry([4, 0], 1, 2, ring_slots=3, block_size=4)
    window, slot = space.window_params(4), space.physical_slot(0)
    pool = contiguous("uint8", np.zeros((space.layer_view_rows(0), 1)))
    for position in range(5):
        values = {
            "kv": contiguous("uint8", [[position + 1]]),
            "positions": contiguous("int32", [position]),
            "cu_seqlens_q": contiguous("int32", [0, 1]),
            "state_slot_per_seq": contiguous("int32", [slot]),
            "pool": pool,
            "window": window,
            "write_per_batch": 1,
        }
        pool = InterpretDevice().run(KERNEL, values)["pool"]
    held = [int(pool.array[window.index(slot, position), 0]) for position in (2, 3, 4)]
    assert held == [3, 4, 5]
    assert int((pool.array != 0).sum()) == 3
