"""Unpacking: 512-byte fp8 rows and their RoPE elements back to bf16 rows."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvproof.kernels.arguments import check_rows, check_tensor
from kvproof.kernels.fp8_parts import PACKED_DTYPES, as_bytes, decode_e4m3, is_fnuz, scale_of_byte
from kvproof.kernels.launch import cdiv, launch
from kvproof.kernels.row_index.kernel import row_offset
from kvproof.models.packed_row import PACKED_BYTES, ROPE, WIDTH

ROWS = 8
"""Rows a program: 28 elements a thread of four warps, in loads of 16 bytes."""


@triton.jit
def unpacked_tiles(packed_row, live, FNUZ: tl.constexpr):
    """NoPE elements [rows, 8, 64] (fp32; tile 7 is 0) of the packed rows that start at ``packed_row`` [rows].

    What a row that is not live holds is not read.
    """
    tile = tl.arange(0, 8)
    place = tl.arange(0, 64)
    cells = live[:, None, None] & (tile < 7)[None, :, None] & (place >= 0)[None, None, :]
    column = (tile * 64)[None, :, None] + place[None, None, :]
    code = tl.load(packed_row[:, None, None] + column, mask=cells, other=0)
    scales = live[:, None] & (tile < 7)[None, :]
    byte = tl.load(packed_row[:, None] + 448 + (2 * tile)[None, :], mask=scales, other=0)
    return decode_e4m3(code, FNUZ) * scale_of_byte(byte)[:, :, None]


@triton.jit(do_not_specialize=["n"])
def fp8_unpack_kernel(
    packed_ptr,
    rope_ptr,
    out_ptr,
    n,
    packed_stride,
    rope_stride,
    out_stride,
    FNUZ: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Grid (ceil(n / ROWS),): program g unpacks rows g*ROWS... Strides in elements."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    live = row < n
    tile = tl.arange(0, 8)
    place = tl.arange(0, 64)
    nope = unpacked_tiles(packed_ptr + row_offset(row, packed_stride), live, FNUZ)
    cells = live[:, None, None] & (tile < 7)[None, :, None] & (place >= 0)[None, None, :]
    column = (tile * 64)[None, :, None] + place[None, None, :]
    tl.store(out_ptr + row_offset(row, out_stride)[:, None, None] + column, nope.to(tl.bfloat16), mask=cells)

    rope = tl.load(rope_ptr + row_offset(row, rope_stride)[:, None] + place[None, :], mask=live[:, None])
    tl.store(out_ptr + (row_offset(row, out_stride) + 448)[:, None] + place[None, :], rope, mask=live[:, None])


def dequantize_v4_2buff_to_bf16(
    packed: torch.Tensor, rope: torch.Tensor, out: torch.Tensor, variant: str = "ocp"
) -> None:
    """Unpack the two planes of an fp8 cache to bf16 rows. In place.

    Args:
        packed: [N, 512] bytes (uint8 or an fp8 type), rows any distance apart.
        rope: [N, 64] bf16, rows any distance apart.
        out: [N, 512] bf16, rows any distance apart.
        variant: "ocp" or "fnuz", the e4m3 variant of the packed bytes.

    A packed element has four significant bits and a power of two for its scale, so bf16 holds it exactly unless
    it is below bf16's normal range. Does not synchronise.

    Raises:
        TypeError, ValueError: an argument out of its contract, by name.
    """
    fnuz = is_fnuz(variant)
    check_tensor("packed", packed, ["N", PACKED_BYTES], PACKED_DTYPES)
    n = packed.shape[0]
    check_tensor("rope", rope, [n, ROPE], (torch.bfloat16,), packed)
    check_tensor("out", out, [n, WIDTH], (torch.bfloat16,), packed)
    check_rows("packed", packed)
    check_rows("rope", rope)
    check_rows("out", out, distinct=True)
    launch(
        fp8_unpack_kernel,
        (cdiv(n, ROWS),),
        as_bytes(packed),
        rope,
        out,
        n,
        packed.stride(0),
        rope.stride(0),
        out.stride(0),
        FNUZ=fnuz,
        ROWS=ROWS,
        num_warps=4,
    )
