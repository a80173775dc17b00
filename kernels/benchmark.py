"""What a benchmark case is: one launch's arguments, and the bytes that it has to move."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kvproof.models.contract import STORAGE_DTYPES


@dataclass(frozen=True)
class BenchCase:
    """One production-size launch.

    Attributes:
        values: the contract's arguments by name; tensors as ``TensorValue``.
        bytes_moved: bytes that any implementation must read and write, each once.
        operations: multiplications and additions on matrix units that it must do; 0 where none matter.
        share: share of the larger of both bounds that a launch should reach, if not the table's own.
    """

    values: Mapping[str, Any]
    bytes_moved: int
    operations: int = 0
    share: float | None = None


def pattern(dtype: str, count: int) -> npt.NDArray[Any]:
    """``count`` elements of a type that are not all alike: zeros can run faster than data does."""
    return np.resize(np.arange(251).astype(STORAGE_DTYPES[dtype]), count)


class Cases(Mapping[str, BenchCase]):
    """Cases by name, each made when it is asked for: all of a kernel's together may not fit a machine.

    Args:
        makers: for each name, what makes its case.
    """

    def __init__(self, makers: Mapping[str, Callable[[], BenchCase]]) -> None:
        self._makers = dict(makers)

    def __getitem__(self, name: str) -> BenchCase:
        return self._makers[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)
