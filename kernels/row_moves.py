"""Moving whole rows between two matrices: the device function, and what its launchers refuse.

Used by every kernel that only moves bytes. A program moves a tile of whole rows, 16 bytes a thread and several
of them in flight; offsets are 64-bit products.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvproof.kernels.arguments import ROW_DTYPES, check_rows, check_tensor
from kvproof.kernels.row_index.kernel import row_offset

FP8_DTYPES = tuple(
    getattr(torch, name)
    for name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
    if hasattr(torch, name)
)


@triton.jit
def move_rows(
    source_ptr,
    source_row,
    source_stride,
    target_ptr,
    target_row,
    target_stride,
    live,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """Copy row ``source_row[i]`` to row ``target_row[i]`` where ``live[i]``: D columns. Strides in elements."""
    column = tl.arange(0, BLOCK_D)
    cells = live[:, None] & (column < D)[None, :]
    source = source_ptr + row_offset(source_row, source_stride)[:, None] + column[None, :]
    target = target_ptr + row_offset(target_row, target_stride)[:, None] + column[None, :]
    tl.store(target, tl.load(source, mask=cells), mask=cells)


def as_bytes(value: torch.Tensor) -> torch.Tensor:
    """The same storage as uint8 if the elements are fp8, which are moved and never computed with."""
    return value.view(torch.uint8) if value.dtype in FP8_DTYPES else value


def token_rows(name: str, value: torch.Tensor) -> torch.Tensor:
    """This forward's rows as a matrix: [T, D], or [T, 1, D] with its middle dimension dropped."""
    if isinstance(value, torch.Tensor) and value.dim() == 3 and value.shape[1] == 1:
        value = value[:, 0]
    check_tensor(name, value, ["T", "D"], (*ROW_DTYPES, *FP8_DTYPES))
    if value.shape[1] < 1:
        raise ValueError(f"{name} must have at least one column, got shape {list(value.shape)}")
    value = as_bytes(value)
    check_rows(name, value)
    return value


def check_planes(
    k_packed: torch.Tensor, k_rope: torch.Tensor, pool: torch.Tensor, pool_rope: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Refuse rows and planes that do not fit together; return them as matrices, fp8 as bytes.

    Raises:
        TypeError, ValueError: an argument out of its contract, by name.
    """
    packed, rope = token_rows("k_packed", k_packed), token_rows("k_rope", k_rope)
    check_tensor("k_rope", rope, [packed.shape[0], "D_rope"], ROW_DTYPES, packed)
    pool, pool_rope = as_bytes(pool), as_bytes(pool_rope)
    check_tensor("pool", pool, ["rows", packed.shape[1]], (packed.dtype,), packed)
    check_tensor("pool_rope", pool_rope, [pool.shape[0], rope.shape[1]], (rope.dtype,), packed)
    check_rows("pool", pool, distinct=True)
    check_rows("pool_rope", pool_rope, distinct=True)
    return packed, rope, pool, pool_rope
