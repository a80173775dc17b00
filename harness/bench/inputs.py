"""A benchmark case's arguments on a GPU: index tensors as they are, large row buffers filled on the device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from kvproof.kernels.benchmark import BenchCase
from kvproof.kernels.registry import Kernel
from kvproof.models.contract import TensorValue

TORCH_TYPES = {
    "int32": torch.int32,
    "int64": torch.int64,
    "uint8": torch.uint8,
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp8": torch.float8_e4m3fn,
}
_CARRIERS = {"bf16": np.int16}
INDEX_TYPES = ("int32", "int64")
LARGE_BYTES = 2**20


def on_device(kernel: Kernel, case: BenchCase, device: str) -> dict[str, Any]:
    """The launcher's arguments.

    A large buffer of rows that a case leaves at zero is filled with random data, since zeros can be faster.
    """
    roles = {tensor.name: tensor.role for tensor in kernel.contract.tensors}
    return {
        name: _tensor(value, roles.get(name, "in"), device) if isinstance(value, TensorValue) else value
        for name, value in case.values.items()
    }


def _tensor(value: TensorValue, role: str, device: str) -> torch.Tensor:
    kind = TORCH_TYPES[value.dtype]
    size = value.storage.size
    large = value.dtype not in INDEX_TYPES and value.storage.nbytes > LARGE_BYTES
    if large and (role == "out" or _is_zero(value.storage)):
        flat = _random(kind, size, device)
    else:
        carried = value.storage.view(_CARRIERS.get(value.dtype, value.storage.dtype))
        flat = torch.from_numpy(carried).to(device).view(kind)
    return torch.as_strided(flat, value.shape, value.strides, value.offset)


def _is_zero(storage: np.ndarray[Any, Any]) -> bool:
    """Whether a storage looks untouched: a sample of it is zero."""
    step = max(storage.size // 4096, 1)
    return not storage[::step].any()


def _random(kind: torch.dtype, size: int, device: str) -> torch.Tensor:
    if kind.is_floating_point and kind != torch.float8_e4m3fn:
        return torch.empty(size, dtype=kind, device=device).normal_()
    return torch.randint(0, 120, (size,), dtype=torch.uint8, device=device).view(kind)


def tensors_of(arguments: Mapping[str, Any]) -> list[torch.Tensor]:
    """The tensors among a launcher's arguments."""
    return [value for value in arguments.values() if isinstance(value, torch.Tensor)]
