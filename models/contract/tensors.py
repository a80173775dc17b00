"""Tensor arguments as plain data: a flat storage and a view of it, without torch.

The storage is what a comparison looks at: a kernel that writes beside its view is seen, since the rows
before, between and after the view's are compared too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kvproof.models.errors import LayoutError

STORAGE_DTYPES: dict[str, type[np.generic]] = {
    "int32": np.int32,
    "int64": np.int64,
    "uint8": np.uint8,
    "fp32": np.float32,
    "fp16": np.float16,
    # No numpy type of their own: carried as bit patterns, which is also how they are compared.
    "bf16": np.uint16,
    "fp8": np.uint8,
}
"""Logical element types of contracts, and the numpy type that carries each."""


@dataclass(frozen=True)
class TensorValue:
    """A strided view of a flat storage.

    Attributes:
        dtype: logical element type, a key of :data:`STORAGE_DTYPES`.
        storage: one-dimensional array of the carrying numpy type.
        shape: extents of the view.
        strides: distance between neighbours of each dimension, in elements.
        offset: storage element of the view's first.
    """

    dtype: str
    storage: npt.NDArray[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    def __post_init__(self) -> None:
        if self.dtype not in STORAGE_DTYPES:
            raise LayoutError(f"dtype is {self.dtype!r}; allowed: {', '.join(STORAGE_DTYPES)}")
        carrier = STORAGE_DTYPES[self.dtype]
        if self.storage.ndim != 1 or self.storage.dtype != carrier:
            raise LayoutError(
                f"storage of {self.dtype} must be a 1-D {carrier.__name__} array, got "
                f"{self.storage.ndim}-D {self.storage.dtype}"
            )
        if len(self.shape) != len(self.strides):
            raise LayoutError(f"shape {self.shape} and strides {self.strides} differ in length")
        if min((0, *self.shape)) < 0 or min((0, *self.strides)) < 0 or self.offset < 0:
            raise LayoutError(
                f"shape {self.shape}, strides {self.strides}, offset {self.offset} must not be negative"
            )
        if 0 not in self.shape:
            last = self.offset + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))
            if last >= self.storage.size:
                raise LayoutError(f"the view's last element is {last}, past a storage of {self.storage.size}")

    @property
    def array(self) -> npt.NDArray[Any]:
        """The view as a numpy array over the same storage (writable)."""
        item = self.storage.itemsize
        return np.lib.stride_tricks.as_strided(
            self.storage[self.offset :], self.shape, [s * item for s in self.strides]
        )

    def over(self, storage: npt.NDArray[Any]) -> TensorValue:
        """The same view of another storage, whose elements are as many and of the same type.

        Raises:
            LayoutError: they are not.
        """
        if storage.size != self.storage.size or storage.dtype != self.storage.dtype or storage.ndim != 1:
            raise LayoutError(
                f"storage must be {self.storage.size} elements of {self.storage.dtype} in one dimension, got "
                f"{list(storage.shape)} of {storage.dtype}"
            )
        # All that __post_init__ checks holds already; a launch makes one of these for each of its tensors.
        other = object.__new__(TensorValue)
        other.__dict__.update(self.__dict__, storage=storage)
        return other

    def copy(self) -> TensorValue:
        """The same view of a copy of the storage."""
        return TensorValue(self.dtype, self.storage.copy(), self.shape, self.strides, self.offset)


def contiguous(dtype: str, values: npt.ArrayLike, shape: Sequence[int] | None = None) -> TensorValue:
    """A tensor that fills its own storage. ``values`` are in the carrying numpy type."""
    array: npt.NDArray[Any] = np.ascontiguousarray(np.asarray(values, STORAGE_DTYPES[dtype]))
    extents = tuple(array.shape if shape is None else shape)
    strides: list[int] = []
    step = 1
    for extent in reversed(extents):
        strides.insert(0, step)
        step *= max(extent, 1)
    return TensorValue(dtype, array.reshape(-1), extents, tuple(strides))
