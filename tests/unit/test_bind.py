"""Binding cases to contracts: each shape accepted next to the nearest refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvproof.models.contract import Contract, Tensor, TensorValue, bind, contiguous
from kvproof.models.errors import LayoutError

CONTRACT = Contract(
    name="op",
    summary="",
    arguments=(
        Tensor("rows", ("bf16", "uint8"), ("T", "D"), "", role="inout", strides="rows"),
        Tensor("ids", "int32", ("T",), "", longer=True),
        Tensor("extra", "int32", ("T", 2), "", optional=True),
    ),
    requires=(),
    tolerates=(),
    accesses=(),
)


def rows(shape: tuple[int, int], stride: int, dtype: str = "uint8") -> TensorValue:
    return TensorValue(dtype, np.zeros(64, np.uint16 if dtype == "bf16" else np.uint8), shape, (stride, 1))


def ids(n: int) -> TensorValue:
    return contiguous("int32", range(n))


def test_dimensions_are_bound_by_the_first_tensor_that_names_them() -> None:
    a = bind(CONTRACT, {"rows": rows((3, 4), 4), "ids": ids(3), "extra": None})
    assert (a.T, a.D) == (3, 4)
    with pytest.raises(AttributeError, match="no argument or dimension 'B'"):
        _ = a.B


def test_index_arrays_are_widened_so_that_formulas_do_not_wrap() -> None:
    a = bind(CONTRACT, {"rows": rows((1, 4), 4), "ids": contiguous("int32", [2**31 - 1]), "extra": None})
    assert (a.ids * 2).tolist() == [2**32 - 2]


@pytest.mark.parametrize(
    "values",
    [
        {"rows": rows((3, 4), 4), "ids": ids(4), "extra": None},
        {"rows": rows((3, 4), 9), "ids": ids(3), "extra": contiguous("int32", [[1, 2]] * 3)},
        {"rows": rows((3, 4), 4, "bf16"), "ids": ids(3), "extra": None},
        {"rows": rows((1, 4), 1), "ids": ids(1), "extra": None},
        {"rows": rows((0, 4), 1), "ids": ids(0), "extra": None},
    ],
)
def test_accepted(values: dict[str, Any]) -> None:
    assert values["rows"].shape[0] == bind(CONTRACT, values).T


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"rows": rows((3, 4), 4), "ids": ids(2), "extra": None},
            r"ids has shape \(2,\); dimension 0 \(T\) must be 3",
        ),
        ({"rows": rows((3, 4), 3), "ids": ids(3), "extra": None}, r"rows has strides \(3, 1\)"),
        ({"rows": rows((3, 4), 4), "ids": ids(3), "extra": contiguous("int32", [[1]] * 3)}, "must be 2"),
        (
            {"rows": rows((3, 4), 4), "ids": contiguous("int64", [0, 1, 2]), "extra": None},
            "dtype int64; allowed: int32",
        ),
        ({"rows": ids(3), "ids": ids(3), "extra": None}, "dtype int32; allowed: bf16, uint8"),
        ({"rows": contiguous("uint8", [1]), "ids": ids(1), "extra": None}, "its contract says"),
        ({"rows": rows((3, 4), 4), "ids": ids(3)}, "'extra' is missing"),
        ({"rows": rows((3, 4), 4), "ids": None, "extra": None}, "ids must be a TensorValue, got NoneType"),
        ({"rows": rows((3, 4), 4), "ids": ids(3), "extra": None, "k": 1}, "unknown argument 'k'"),
    ],
)
def test_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        bind(CONTRACT, values)
