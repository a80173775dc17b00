"""Tensors as plain data to torch and back. Every element keeps its bits. torch is imported when first used."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from kvproof.models.contract import STORAGE_DTYPES, TensorValue

if TYPE_CHECKING:
    import torch

_TORCH_NAMES = {
    "int32": "int32",
    "int64": "int64",
    "uint8": "uint8",
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp8": "float8_e4m3fn",
}
# torch.from_numpy knows no uint16; the bits travel as int16.
_CARRIERS = {"bf16": np.int16}


@functools.cache
def torch_dtype(dtype: str) -> torch.dtype:
    """The torch type of a contract's element type."""
    import torch  # noqa: PLC0415

    return getattr(torch, _TORCH_NAMES[dtype])


def storages_of(values: Mapping[str, Any]) -> dict[str, tuple[int, int, int]]:
    """For each torch tensor among some values: address of its storage, bytes, bytes of an element."""
    import torch  # noqa: PLC0415

    found: dict[str, tuple[int, int, int]] = {}
    for name, value in values.items():
        if isinstance(value, torch.Tensor):
            storage = value.untyped_storage()
            found[name] = (storage.data_ptr(), storage.nbytes(), value.element_size())
    return found


class TorchArguments:
    """One launch's arguments on a torch device. Tensors that share a storage keep sharing it."""

    def __init__(self, values: Mapping[str, Any], device: str) -> None:
        self._values = values
        self._storages: dict[int, torch.Tensor] = {}
        self._device = device
        # In host memory a tensor shares the bytes of an array; asking torch for them takes longer.
        self._shared: dict[int, Any] = {}
        self.arguments: dict[str, Any] = {
            name: self._tensor(value, device) if isinstance(value, TensorValue) else value
            for name, value in values.items()
        }

    def _tensor(self, value: TensorValue, device: str) -> torch.Tensor:
        import torch  # noqa: PLC0415

        flat = self._storages.get(id(value.storage))
        first = flat is None
        if flat is None:
            carried = value.storage.copy().view(_CARRIERS.get(value.dtype, value.storage.dtype))
            flat = torch.from_numpy(carried)
            if device == "cpu":
                self._shared[id(value.storage)] = carried
            else:
                flat = flat.to(device)
            self._storages[id(value.storage)] = flat
        wanted = torch_dtype(value.dtype)
        typed = flat if flat.dtype is wanted else flat.view(wanted)
        if len(value.shape) == 1 and value.strides == (1,) and value.shape[0] == value.storage.size:
            return typed if first else typed.view(value.shape)  # a tensor of its own, as each argument is
        return typed.as_strided(value.shape, value.strides, value.offset)

    def shared(self) -> Mapping[int, tuple[int, Any, TensorValue]]:
        """For each tensor argument in host memory, by its id: address and array that it shares, and its layout."""
        found: dict[int, tuple[int, Any, TensorValue]] = {}
        for name, value in self._values.items():
            if isinstance(value, TensorValue):
                key = id(value.storage)
                found[id(self.arguments[name])] = (self._storages[key].data_ptr(), self._shared[key], value)
        return found

    def storages(self) -> Mapping[str, tuple[int, int, int]]:
        """For each tensor argument: address of its storage, bytes, bytes of an element."""
        found: dict[str, tuple[int, int, int]] = {}
        for name, value in self._values.items():
            if isinstance(value, TensorValue):
                flat = self._storages[id(value.storage)]
                found[name] = (flat.data_ptr(), flat.numel() * flat.element_size(), flat.element_size())
        return found

    def results(self) -> dict[str, TensorValue]:
        """Every tensor argument as it is now."""
        host = self._shared or {key: flat.cpu().numpy() for key, flat in self._storages.items()}
        return {
            name: value.over(host[id(value.storage)].view(STORAGE_DTYPES[value.dtype]))
            for name, value in self._values.items()
            if isinstance(value, TensorValue)
        }
