"""A contract's element types as torch's. torch is imported when first used."""

from __future__ import annotations

from typing import Any

TORCH_NAMES = {
    "int32": "int32",
    "int64": "int64",
    "uint8": "uint8",
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp8": "float8_e4m3fn",
}
"""Name of torch's type of each element type."""


def torch_dtype(dtype: str) -> Any:
    """The torch type of a contract's element type."""
    import torch  # noqa: PLC0415  (an optional package)

    return getattr(torch, TORCH_NAMES[dtype])
