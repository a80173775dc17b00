"""What launchers count tiles with, against Triton's own; views of results against checked ones."""

from __future__ import annotations

import numpy as np
import pytest

from kvproof.models.contract import TensorValue
from kvproof.models.errors import LayoutError


def test_tiles_are_counted_as_triton_counts_them():
    triton = pytest.importorskip("triton")
    launch = pytest.importorskip("kvproof.kernels.launch")
    for n in (*range(70), 2**31 - 1, 2**31, 2**31 + 1):
        assert launch.next_power_of_2(n) == triton.next_power_of_2(n), n
        assert [launch.cdiv(n, d) for d in (1, 3, 64)] == [triton.cdiv(n, d) for d in (1, 3, 64)], n


def test_a_view_of_another_storage_is_the_same_view():
    value = TensorValue("bf16", np.arange(12, dtype=np.uint16), (2, 3), (4, 1), 1)
    other = np.arange(12, 24, dtype=np.uint16)
    moved = value.over(other)
    assert moved == TensorValue("bf16", other, (2, 3), (4, 1), 1)
    assert moved.array.tolist() == [[13, 14, 15], [17, 18, 19]]
    assert value.array.tolist() == [[1, 2, 3], [5, 6, 7]]


@pytest.mark.parametrize(
    "storage",
    [np.zeros(11, np.uint16), np.zeros(13, np.uint16), np.zeros(12, np.int16), np.zeros((3, 4), np.uint16)],
)
def test_a_storage_that_does_not_fit_is_refused(storage):
    value = TensorValue("bf16", np.zeros(12, np.uint16), (2, 3), (4, 1), 1)
    with pytest.raises(LayoutError, match="12 elements of uint16"):
        value.over(storage)
