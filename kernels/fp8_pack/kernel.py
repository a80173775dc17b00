"""Packing: bf16 rows to 512-byte fp8 rows and their RoPE elements.

One pass: a row is read once, its seven tiles stay in registers while their scales are found, and every byte of
the packed row is written once, the padding too, so that a plane needs no clearing beforehand.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvproof.kernels.arguments import check_rows, check_tensor
from kvproof.kernels.fp8_parts import (
    PACKED_DTYPES,
    as_bytes,
    bits_of_bf16,
    encode_tiles,
    has_native_e4m3,
    is_fnuz,
    store_packed,
)
from kvproof.kernels.launch import cdiv, launch
from kvproof.kernels.row_index.kernel import row_offset
from kvproof.models.packed_row import PACKED_BYTES, ROPE, WIDTH

ROWS = 8
"""Rows a program: 32 elements a thread of four warps, in four loads of 16 bytes."""


@triton.jit(do_not_specialize=["n"])
def fp8_pack_kernel(
    src_ptr,
    packed_ptr,
    rope_ptr,
    n,
    src_stride,
    packed_stride,
    rope_stride,
    FNUZ: tl.constexpr,
    NATIVE: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Grid (ceil(n / ROWS),): program g packs rows g*ROWS.. of src. Strides in elements."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    live = row < n
    tile = tl.arange(0, 8)
    place = tl.arange(0, 64)
    # Tile 7 of a source row is its RoPE part; bytes 448 and on of a packed row are scales and padding.
    cells = live[:, None, None] & (tile < 7)[None, :, None] & (place >= 0)[None, None, :]
    column = (tile * 64)[None, :, None] + place[None, None, :]
    x = tl.load(src_ptr + row_offset(row, src_stride)[:, None, None] + column, mask=cells, other=0.0)
    code, exponent = encode_tiles(bits_of_bf16(x), FNUZ, NATIVE)
    store_packed(packed_ptr + row_offset(row, packed_stride), live, code, exponent)

    rope = tl.load(src_ptr + (row_offset(row, src_stride) + 448)[:, None] + place[None, :], mask=live[:, None])
    tl.store(rope_ptr + row_offset(row, rope_stride)[:, None] + place[None, :], rope, mask=live[:, None])


def quantize_bf16_to_v4_2buff(
    src: torch.Tensor, packed: torch.Tensor, rope: torch.Tensor, variant: str = "ocp"
) -> None:
    """Pack bf16 rows into the two planes of an fp8 cache. In place.

    Args:
        src: [N, 512] bf16 rows, any distance apart: 448 NoPE elements, then 64 RoPE elements.
        packed: [N, 512] bytes (uint8 or an fp8 type), rows any distance apart.
        rope: [N, 64] bf16, rows any distance apart.
        variant: "ocp" or "fnuz", the e4m3 variant of the packed bytes.

    Does not synchronise.

    Raises:
        TypeError, ValueError: an argument out of its contract, by name.
    """
    fnuz = is_fnuz(variant)
    check_tensor("src", src, ["N", WIDTH], (torch.bfloat16,))
    n = src.shape[0]
    check_tensor("packed", packed, [n, PACKED_BYTES], PACKED_DTYPES, src)
    check_tensor("rope", rope, [n, ROPE], (torch.bfloat16,), src)
    check_rows("src", src)
    check_rows("packed", packed, distinct=True)
    check_rows("rope", rope, distinct=True)
    launch(
        fp8_pack_kernel,
        (cdiv(n, ROWS),),
        src,
        as_bytes(packed),
        rope,
        n,
        src.stride(0),
        packed.stride(0),
        rope.stride(0),
        FNUZ=fnuz,
        NATIVE=not fnuz and has_native_e4m3(src),
        ROWS=ROWS,
        num_warps=4,
    )
