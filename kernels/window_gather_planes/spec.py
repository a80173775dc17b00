"""What the dequantising gather gives: the rows of the plain one, unpacked as the packed row's definition says."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kvproof.kernels.fp8_unpack.spec import unpacked_row
from kvproof.models.contract import Approximate
from kvproof.models.packed_row import WIDTH


def unpacked_cells(
    pool: npt.NDArray[Any], pool_rope: npt.NDArray[Any], rows: npt.NDArray[np.int64], variant: str
) -> Approximate:
    """Rows [n, 512] of the planes, exact; zeros for row -1."""
    exact = np.zeros((rows.size, WIDTH))
    held = rows[rows >= 0]
    exact[rows >= 0] = unpacked_row(pool[held], pool_rope[held], variant).exact
    return Approximate(exact, np.zeros_like(exact))
