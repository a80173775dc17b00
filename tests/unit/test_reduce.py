"""The last pass over a failing launch: what it lowers, what it leaves, and where it ends."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kvproof.harness.run.reduce import reduced
from kvproof.models.contract import Scalar, Tensor, contiguous
from kvproof.properties.strategies.cases import Case

KERNEL: Any = SimpleNamespace(
    contract=SimpleNamespace(
        tensors=(
            Tensor("ids", "int32", ("T",), "ids"),
            Tensor("table", "int32", ("bs", "columns"), "blocks"),
            Tensor("rows", "fp32", ("T",), "rows"),
        ),
        arguments=(Scalar("height", "rows"),),
    )
)


def case(ids: list[int], table: list[list[int]], height: int) -> Case:
    return Case(
        {
            "ids": contiguous("int32", ids),
            "table": contiguous("int32", np.array(table)),
            "rows": contiguous("fp32", np.ones(len(ids))),
            "height": height,
        }
    )


def smallest(start: Case, fails: Callable[[Any, Any, Any, int], bool]) -> tuple[list[int], list[list[int]], int]:
    def failing(found: Case) -> str | None:
        values = found.values
        ids, table, rows = (values[name].array for name in ("ids", "table", "rows"))
        return "it fails" if fails(ids, table, rows, values["height"]) else None

    end = reduced(KERNEL, start, failing)
    assert end is not None
    assert end[1] == "it fails"
    return end[0].values["ids"].array.tolist(), end[0].values["table"].array.tolist(), end[0].values["height"]


def test_a_case_that_does_not_fail_is_none() -> None:
    assert reduced(KERNEL, case([1], [[1]], 1), lambda _: None) is None


def test_numbers_and_extents_go_down_together() -> None:
    start = case([5, 900, 7], [[3, 4], [5, 6]], 40)
    found = smallest(start, lambda ids, *_: bool((ids >= 17).any()))
    assert found == ([17], [[0]], 0)


def test_a_product_ends_at_its_smallest_factor() -> None:
    """Both factors have to change at once: from (3, 715,827,883) to (2, 2**30)."""
    start = case([0], [[715_827_883]], 3)
    found = smallest(
        start, lambda _ids, table, _rows, height: bool((table.astype(np.int64) * height >= 2**31).any())
    )
    assert found == ([0], [[2**30]], 2)


def test_consecutive_numbers_stay_consecutive() -> None:
    start = case([172, 173], [[0]], 0)
    found = smallest(start, lambda ids, *_: len(ids) == 2 and ids[1] == ids[0] + 1)
    assert found == ([0, 1], [[0]], 0)


@pytest.mark.parametrize("start", [[4, -9], [-2147483648, 3]])
def test_a_negative_number_stays_negative_if_it_must(start: list[int]) -> None:
    found = smallest(case(start, [[0]], 0), lambda ids, *_: bool((ids < 0).any()))
    assert found == ([-1], [[0]], 0)


def test_rows_go_with_their_place() -> None:
    def fails(ids: Any, _table: Any, rows: Any, _height: int) -> bool:
        return len(ids) == len(rows) and bool((ids == 6).any())

    assert smallest(case([1, 6, 2], [[0]], 0), fails) == ([6], [[0]], 0)


def test_the_pass_ends_with_its_time() -> None:
    end = reduced(KERNEL, case([500], [[0]], 0), lambda _: "fails", seconds=0.0, clock=lambda: 1.0)
    assert end is not None
    assert end[0].values["ids"].array.tolist() == [500]
