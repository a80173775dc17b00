"""Row scatter: each token's row to a row that the caller chose, in one plane."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvproof.kernels.arguments import INDEX_DTYPES, ROW_DTYPES, check_rows, check_tensor, check_vector
from kvproof.kernels.launch import cdiv, launch, next_power_of_2
from kvproof.kernels.row_moves import as_bytes, move_rows
from kvproof.kernels.row_scatter_planes.kernel import scatter_planes
from kvproof.kernels.shapes import row_tile


@triton.jit(do_not_specialize=["num_tokens", "pool_rows"])
def row_scatter_kernel(
    kv_ptr,
    dest_rows_ptr,
    batch_ids_ptr,
    pool_ptr,
    kv_stride,
    pool_stride,
    num_tokens,
    pool_rows,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Grid (ceil(tokens / ROWS),): a program moves ROWS tokens. Strides in elements."""
    token = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    batch = token < num_tokens
    row = tl.load(dest_rows_ptr + token, mask=batch, other=-1)
    sequence = tl.load(batch_ids_ptr + token, mask=batch, other=-1)
    live = (sequence >= 0) & (row >= 0) & (row < pool_rows)
    move_rows(kv_ptr, token, kv_stride, pool_ptr, row, pool_stride, live, D, BLOCK_D)


def swa_scatter_rows(
    kv: torch.Tensor | None,
    dest_rows: torch.Tensor,
    batch_id_per_token: torch.Tensor,
    pool: torch.Tensor,
    *,
    k_packed: torch.Tensor | None = None,
    k_rope: torch.Tensor | None = None,
    pool_rope: torch.Tensor | None = None,
) -> None:
    """Write each token's row to row ``dest_rows[t]`` of the pool. In place.

    Args:
        kv: [T, D] this forward's rows; rows contiguous, any distance apart. Unused (and may be None) with two
            planes.
        dest_rows: [>= T] int32 pool row of each token.
        batch_id_per_token: [>= T] int32; a token with a negative id is padding and is not written.
        pool: [rows, D] the plane from the layer's base row on, of kv's type.
        k_packed, k_rope, pool_rope: with ``pool_rope`` both planes are written: packed rows [T, 512] (or
            [T, 1, 512]) to ``pool`` and RoPE rows [T, 64] to ``pool_rope``, from one launch.

    Does not synchronise. A negative row or one past the pool is dropped; live rows must be distinct.

    Raises:
        TypeError, ValueError: an argument out of its contract, by name.
    """
    if pool_rope is not None or k_packed is not None or k_rope is not None:
        if pool_rope is None or k_packed is None or k_rope is None:
            raise ValueError("k_packed, k_rope and pool_rope must be given together; one of them is None")
        scatter_planes(k_packed, k_rope, dest_rows, batch_id_per_token, pool, pool_rope)
        return
    if kv is None:
        raise ValueError("kv must be given unless k_packed, k_rope and pool_rope are")
    kv, pool = as_bytes(kv), as_bytes(pool)
    check_tensor("kv", kv, ["T", "D"], ROW_DTYPES)
    tokens, columns = kv.shape
    if columns < 1:
        raise ValueError(f"kv must have at least one column, got shape {list(kv.shape)}")
    check_vector("dest_rows", dest_rows, tokens, kv, INDEX_DTYPES)
    check_vector("batch_id_per_token", batch_id_per_token, tokens, kv, INDEX_DTYPES)
    check_tensor("pool", pool, ["rows", columns], (kv.dtype,), kv)
    check_rows("kv", kv)
    check_rows("pool", pool, distinct=True)
    rows, warps = row_tile(columns * kv.element_size(), tokens)
    launch(
        row_scatter_kernel,
        (cdiv(tokens, rows),),
        kv,
        dest_rows,
        batch_id_per_token,
        pool,
        kv.stride(0),
        pool.stride(0),
        tokens,
        pool.shape[0],
        D=columns,
        BLOCK_D=next_power_of_2(columns),
        ROWS=rows,
        num_warps=warps,
    )
