"""What a benchmark case is: one launch's arguments, and the bytes that it has to move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class BenchCase:
    """One production-size launch.

    Attributes:
        values: the contract's arguments by name; tensors as ``TensorValue``.
        bytes_moved: bytes that any implementation must read and write, each once.
        operations: multiplications and additions on matrix units that it must do; 0 where none matter.
    """

    values: Mapping[str, Any]
    bytes_moved: int
    operations: int = 0
