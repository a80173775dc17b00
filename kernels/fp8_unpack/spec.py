"""What unpacking gives, from the packed row's definition in models/."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kvproof.models.contract import Approximate
from kvproof.models.floats import from_bf16, to_bf16
from kvproof.models.packed_row import FORMATS, unpack_rows


def unpacked_row(packed: npt.NDArray[Any], rope: npt.NDArray[Any], variant: str) -> Approximate:
    """Rows [n, 512], exact: the bound is 0. It serves only to let a NaN have any bits, which devices choose."""
    nope = from_bf16(to_bf16(unpack_rows(packed, FORMATS[variant])))
    exact = np.concatenate([nope, from_bf16(rope)], axis=1)
    return Approximate(exact, np.zeros_like(exact))
