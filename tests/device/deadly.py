"""A function that breaks its GPU's context by how many tokens it gets: 2 an assert, 3 far away, 4 a guard."""

import torch
import triton
import triton.language as tl


@triton.jit
def _scatter(kv, dest, ids, pool, stride, rows, far, BLOCK: tl.constexpr, DEED: tl.constexpr):
    token = tl.program_id(0)
    row = tl.load(dest + token)
    columns = tl.arange(0, BLOCK)
    value = tl.load(kv + token * BLOCK + columns)
    if DEED == 3:
        tl.store(pool + far + columns, value)
    if DEED == 4:
        tl.store(pool + rows * stride + 64 + columns, value)
    if (tl.load(ids + token) >= 0) & (row >= 0) & (row < rows):
        tl.store(pool + row * stride + columns, value)


def scatter(kv, dest_rows, batch_id_per_token, pool) -> None:
    """Rows to their destinations, and the deed."""
    tokens = kv.shape[0]
    if not tokens:
        return
    if tokens == 2:
        torch._assert_async(torch.zeros(1, device=kv.device))
    _scatter[(tokens,)](
        kv,
        dest_rows,
        batch_id_per_token,
        pool,
        pool.stride(0),
        pool.shape[0],
        1 << 44,
        BLOCK=kv.shape[1],
        DEED=tokens,
    )
