"""Validation of a launcher's arguments: metadata only, so it never waits for a device."""

from __future__ import annotations

from collections.abc import Sequence

import torch

INDEX_DTYPES = (torch.int32,)
POSITION_DTYPES = (torch.int32, torch.int64)
ROW_DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.uint8)


def check_tensor(
    name: str,
    value: torch.Tensor,
    shape: Sequence[str | int],
    dtypes: Sequence[torch.dtype],
    like: torch.Tensor | None = None,
) -> None:
    """Refuse a tensor of the wrong rank, extent, element type or device.

    Args:
        name: argument name, for the message.
        value: the tensor.
        shape: each extent: a number that must match, or a name for one that is free.
        dtypes: accepted element types.
        like: a tensor on whose device it must be.

    Raises:
        TypeError: not a tensor, or another element type.
        ValueError: another shape or device.
    """
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(value).__name__}")
    wanted = ", ".join(map(str, shape))
    if value.dim() != len(shape) or any(
        isinstance(extent, int) and extent != got for extent, got in zip(shape, value.shape, strict=True)
    ):
        raise ValueError(f"{name} must have shape [{wanted}], got {list(value.shape)}")
    if value.dtype not in dtypes:
        allowed = " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise TypeError(f"{name} must be {allowed}, got {str(value.dtype).removeprefix('torch.')}")
    if like is not None and value.device != like.device:
        raise ValueError(f"{name} is on {value.device}, the first argument on {like.device}; both must be on one")


def check_contiguous(name: str, value: torch.Tensor) -> None:
    """Refuse an index tensor whose elements are not one after the other."""
    if not value.is_contiguous():
        raise ValueError(f"{name} must be contiguous, got strides {list(value.stride())}")


def check_vector(
    name: str, value: torch.Tensor, least: int, like: torch.Tensor, dtypes: Sequence[torch.dtype] = INDEX_DTYPES
) -> None:
    """Refuse what is no contiguous vector of at least ``least`` elements."""
    check_tensor(name, value, [f"at least {least}"], dtypes, like)
    if value.shape[0] < least:
        raise ValueError(f"{name} must have at least {least} elements, got {value.shape[0]}")
    check_contiguous(name, value)


def check_rows(name: str, value: torch.Tensor, *, distinct: bool = False) -> None:
    """Refuse a matrix whose rows are not contiguous; the distance between rows is free.

    Args:
        name: argument name.
        value: a tensor of two dimensions.
        distinct: rows must not share elements, which a matrix that is written needs.
    """
    rows, columns = value.shape
    if columns > 1 and value.stride(1) != 1:
        raise ValueError(f"{name} must have contiguous rows (last stride 1), got strides {list(value.stride())}")
    if distinct and rows > 1 and value.stride(0) < columns:
        raise ValueError(
            f"{name} has rows of {columns} elements that overlap, with strides {list(value.stride())}; "
            "it is written, so the first stride must be at least the row"
        )


def check_count(name: str, value: int, low: int, high: int | None = None) -> int:
    """Refuse a number that is no integer of ``low..high``; return it as ``int``."""
    allowed = f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}"
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be {allowed}, got {value!r}")
    number = int(value)
    if number < low or (high is not None and number > high):
        raise ValueError(f"{name} must be {allowed}, got {number}")
    return number
