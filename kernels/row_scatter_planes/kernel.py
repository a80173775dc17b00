"""Row scatter in both planes from one launch: ids and bounds are read once for the two rows of a token."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvproof.kernels.arguments import INDEX_DTYPES, check_vector
from kvproof.kernels.launch import cdiv, launch, next_power_of_2
from kvproof.kernels.row_moves import check_planes, move_rows
from kvproof.kernels.shapes import row_tile


@triton.jit(do_not_specialize=["num_tokens", "pool_rows"])
def row_scatter_planes_kernel(
    packed_ptr,
    rope_ptr,
    dest_rows_ptr,
    batch_ids_ptr,
    pool_ptr,
    pool_rope_ptr,
    packed_stride,
    rope_stride,
    pool_stride,
    pool_rope_stride,
    num_tokens,
    pool_rows,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    D_ROPE: tl.constexpr,
    BLOCK_ROPE: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Grid (ceil(tokens / ROWS),): a program moves ROWS tokens' rows in both planes. Strides in elements."""
    token = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    batch = token < num_tokens
    row = tl.load(dest_rows_ptr + token, mask=batch, other=-1)
    sequence = tl.load(batch_ids_ptr + token, mask=batch, other=-1)
    live = (sequence >= 0) & (row >= 0) & (row < pool_rows)
    move_rows(packed_ptr, token, packed_stride, pool_ptr, row, pool_stride, live, D, BLOCK_D)
    move_rows(rope_ptr, token, rope_stride, pool_rope_ptr, row, pool_rope_stride, live, D_ROPE, BLOCK_ROPE)


def scatter_planes(
    k_packed: torch.Tensor,
    k_rope: torch.Tensor,
    dest_rows: torch.Tensor,
    batch_id_per_token: torch.Tensor,
    pool: torch.Tensor,
    pool_rope: torch.Tensor,
) -> None:
    """Write both parts of each token's row to row ``dest_rows[t]`` of the two planes. In place.

    Args:
        k_packed: [T, D] or [T, 1, D] this forward's packed rows.
        k_rope: [T, D_rope] or [T, 1, D_rope] its RoPE rows.
        dest_rows, batch_id_per_token: as of ``swa_scatter_rows``.
        pool, pool_rope: [rows, D] and [rows, D_rope] the planes from the layer's base row on.

    Raises:
        TypeError, ValueError: an argument out of its contract, by name.
    """
    packed, rope, pool, pool_rope = check_planes(k_packed, k_rope, pool, pool_rope)
    tokens, columns = packed.shape
    check_vector("dest_rows", dest_rows, tokens, packed, INDEX_DTYPES)
    check_vector("batch_id_per_token", batch_id_per_token, tokens, packed, INDEX_DTYPES)
    rows, warps = row_tile(columns * packed.element_size(), tokens)
    launch(
        row_scatter_planes_kernel,
        (cdiv(tokens, rows),),
        packed,
        rope,
        dest_rows,
        batch_id_per_token,
        pool,
        pool_rope,
        packed.stride(0),
        rope.stride(0),
        pool.stride(0),
        pool_rope.stride(0),
        tokens,
        pool.shape[0],
        D=columns,
        BLOCK_D=next_power_of_2(columns),
        D_ROPE=rope.shape[1],
        BLOCK_ROPE=next_power_of_2(rope.shape[1]),
        ROWS=rows,
        num_warps=warps,
    )
