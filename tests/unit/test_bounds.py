"""Float results within a bound: what is accepted and what the comparison then sees."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kvproof.models.contract import (
    Access,
    Approximate,
    Contract,
    Index,
    Tensor,
    bind,
    contiguous,
    expected_buffers,
    settle,
    within_bound,
)
from kvproof.models.errors import LayoutError


@pytest.mark.parametrize(
    ("value", "exact", "error", "accepted"),
    [
        (1.0, 1.0, 0.0, True),
        (1.1, 1.0, 0.1000001, True),
        (1.1, 1.0, 0.0999999, False),
        (np.nan, 1.0, 5.0, False),
        (1.0, np.nan, 5.0, False),
        (np.nan, np.nan, 0.0, True),
        (np.nan, 1.0, np.inf, True),
        (np.inf, np.inf, 0.0, True),
        (np.inf, 1.0, 5.0, False),
        (-0.0, 0.0, 0.0, True),
    ],
)
def test_within_bound(value: float, exact: float, error: float, accepted: bool) -> None:
    wanted = Approximate(np.array([exact]), np.array([error]))
    assert within_bound(np.array([value]), wanted).tolist() == [accepted]


def contract(dtype: str, bound: Any) -> Contract:
    return Contract(
        name="x",
        summary="x",
        arguments=(Tensor("out", dtype, ("n", 2), "x", role="out"),),
        requires=(),
        tolerates=(),
        accesses=(
            Access(
                "out",
                "must",
                (Index("i", stop=lambda a: a.n),),
                when=lambda _a, i: i != 1,
                cell=lambda _a, i: (i,),
                words="rows but the second",
                bound=bound,
            ),
        ),
    )


def settled(dtype: str, bound: Any, before: npt.ArrayLike, after: npt.ArrayLike) -> npt.NDArray[Any]:
    of = contract(dtype, bound)
    values = {"out": contiguous(dtype, before)}
    arguments = bind(of, values)
    expected = expected_buffers(of, values, arguments)
    settle(of, arguments, expected, {"out": contiguous(dtype, after)})
    return expected["out"].array


def ones(_a: Any, i: npt.NDArray[Any]) -> Approximate:
    return Approximate(np.ones((i.size, 2)), np.full((i.size, 2), 0.1))


def test_what_is_within_its_bound_is_taken_over_and_the_rest_is_not() -> None:
    before = [[0.0, 0.0], [7.0, 7.0], [0.0, 0.0]]
    after = [[1.05, 1.2], [1.0, 1.0], [0.95, 1.0]]
    found = settled("fp32", ones, before, after)
    assert found[0, 0] == np.float32(1.05)
    assert found[0, 1] == 1.0  # out of its bound: the exact value
    assert found[1].tolist() == [7.0, 7.0]  # not written by the contract
    assert found[2].tolist() == [np.float32(0.95), 1.0]


def test_bf16_is_decoded_and_encoded() -> None:
    found = settled("bf16", ones, np.zeros((1, 2)), np.array([[0x3F84, 0x3FC0]]))  # 1.03125 and 1.5
    assert found.tolist() == [[0x3F84, 0x3F80]]


def test_cells_of_a_custom_coding_are_accepted_as_a_whole() -> None:
    def bound(_a: Any, i: npt.NDArray[Any]) -> Approximate:
        return Approximate(
            np.full((i.size, 1), 3.0),
            np.zeros((i.size, 1)),
            decode=lambda cells: (cells[:, :1] + cells[:, 1:]).astype(np.float64),
            encode=lambda _values: np.array([3, 0], np.uint8),
        )

    found = settled("uint8", bound, np.zeros((3, 2)), [[1, 2], [1, 2], [2, 2]])
    assert found.tolist() == [[1, 2], [0, 0], [3, 0]]


def test_a_bound_on_bytes_needs_a_coding() -> None:
    with pytest.raises(LayoutError, match="a bound on uint8 elements"):
        settled("uint8", ones, np.zeros((1, 2)), np.zeros((1, 2)))
