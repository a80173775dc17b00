"""Keys of sparse paged attention on the device: rows gathered as slices of 64 columns.

A slice is 64 columns that follow one another, eight in all. Over packed rows and few heads a slice is every fourth
column of columns 0..255 or 256..447 (*quads*), since four codes are one word: a product over all columns does not
mind in which order they come. The last 64 columns, the other plane's, are a ninth slice then. Queries are read and
results written in the same order.
"""

# Device code is not quite Python: branches are decided when compiled.
# pyright: reportArgumentType=false, reportGeneralTypeIssues=false, reportPossiblyUnboundVariable=false

from __future__ import annotations

import triton
import triton.language as tl

from kvproof.kernels.fp8_parts import decode_e4m3, scale_of_byte
from kvproof.kernels.row_index.kernel import row_offset


@triton.jit
def slice_columns(PART: tl.constexpr, QUADS: tl.constexpr):
    """The 64 columns of a slice, and which of them it has: a slice of columns 256..447 is 48 wide."""
    d = tl.arange(0, 64)
    if QUADS and PART < 8:
        column = 256 * (PART // 4) + 4 * d + PART % 4
        held = column < 448
    else:
        column = (448 if QUADS else 64 * PART) + d
        held = column < 512
    return column, held


@triton.jit
def plain_slice(start, live, PART: tl.constexpr, QUADS: tl.constexpr):
    """One slice of bf16 rows, [rows, 64]."""
    column, held = slice_columns(PART, QUADS)
    mask = live[:, None] & held[None, :] if QUADS else live[:, None]
    return tl.load(start[:, None] + column[None, :], mask=mask, other=0.0)


@triton.jit
def plain_quads(start, live, HALF: tl.constexpr):
    """Four slices in quads of bf16 rows that begin at whole 64-bit words."""
    d = tl.arange(0, 64)
    words = start.to(tl.pointer_type(tl.int64))[:, None] + (64 * HALF + d)[None, :]
    word = tl.load(words, mask=live[:, None] & (64 * HALF + d < 112)[None, :], other=0)
    k0 = word.to(tl.int16).to(tl.bfloat16, bitcast=True)
    k1 = (word >> 16).to(tl.int16).to(tl.bfloat16, bitcast=True)
    k2 = (word >> 32).to(tl.int16).to(tl.bfloat16, bitcast=True)
    k3 = (word >> 48).to(tl.int16).to(tl.bfloat16, bitcast=True)
    return k0, k1, k2, k3


@triton.jit
def packed_slice(start, live, PART: tl.constexpr, FNUZ: tl.constexpr):
    """One slice in quads of packed rows, bf16 [rows, 64], byte by byte."""
    column, held = slice_columns(PART, True)
    mask = live[:, None] & held[None, :]
    code = tl.load(start[:, None] + column[None, :], mask=mask, other=0)
    byte = tl.load(start[:, None] + (448 + 2 * (column // 64))[None, :], mask=mask, other=0)
    return (decode_e4m3(code, FNUZ) * scale_of_byte(byte)).to(tl.bfloat16)


@triton.jit
def tile_byte(start, live, PART: tl.constexpr, WORDS: tl.constexpr):
    """The scale byte of a tile of packed rows; with WORDS out of the 32-bit word that it lies in."""
    if WORDS:
        words = start.to(tl.pointer_type(tl.int32)) + 112 + PART // 2
        byte = (tl.load(words, mask=live, other=0) >> (16 * (PART % 2))) & 0xFF
    else:
        byte = tl.load(start + 448 + 2 * PART, mask=live, other=0)
    return byte


@triton.jit
def packed_tile(start, live, PART: tl.constexpr, FNUZ: tl.constexpr, WORDS: tl.constexpr):
    """One tile of packed rows, bf16 [rows, 64]: columns that follow one another."""
    column = 64 * PART + tl.arange(0, 64)
    code = tl.load(start[:, None] + column[None, :], mask=live[:, None], other=0)
    value = code.to(tl.float8e4nv, bitcast=True).to(tl.float32) if WORDS else decode_e4m3(code, FNUZ)
    return (value * scale_of_byte(tile_byte(start, live, PART, WORDS))[:, None]).to(tl.bfloat16)


@triton.jit
def four_values(word):
    """The fp32 values of the four OCP e4m3 codes of each 32-bit word, by an NVIDIA GPU's conversion; exact."""
    return tl.inline_asm_elementwise(
        """{
        .reg .b16 low, high, x0, x1, x2, x3;
        .reg .b32 a, b;
        mov.b32 {low, high}, $4;
        cvt.rn.f16x2.e4m3x2 a, low;
        cvt.rn.f16x2.e4m3x2 b, high;
        mov.b32 {x0, x1}, a;
        mov.b32 {x2, x3}, b;
        cvt.f32.f16 $0, x0;
        cvt.f32.f16 $1, x1;
        cvt.f32.f16 $2, x2;
        cvt.f32.f16 $3, x3;
        }""",
        "=r,=r,=r,=r,r",
        [word],
        dtype=(tl.float32, tl.float32, tl.float32, tl.float32),
        is_pure=True,
        pack=1,
    )


@triton.jit
def tile_scale(word, ODD: tl.constexpr):
    """[rows, 1] fp32 scales of an even or odd tile from the word that holds the bytes of both, each twice."""
    return scale_of_byte((word >> (16 * ODD)) & 0xFF)[:, None]


@triton.jit
def packed_quads(start, live):
    """The eight slices in quads of packed rows that begin at whole 32-bit words, on an NVIDIA GPU.

    Only words are loaded, since a GPU fetches ahead nothing smaller.
    """
    d = tl.arange(0, 64)
    lane = d[None, :]
    words = start.to(tl.pointer_type(tl.int32))
    w0 = tl.load(words + 112, mask=live, other=0)
    w1 = tl.load(words + 113, mask=live, other=0)
    w2 = tl.load(words + 114, mask=live, other=0)
    w3 = tl.load(words + 115, mask=live, other=0)
    first = tl.load(words[:, None] + lane, mask=live[:, None], other=0)
    second = tl.load(words[:, None] + 64 + lane, mask=live[:, None] & (lane < 48), other=0)

    low = tl.where(lane < 16, tile_scale(w0, 0), tile_scale(w0, 1))
    scale = tl.where(lane < 32, low, tl.where(lane < 48, tile_scale(w1, 0), tile_scale(w1, 1)))
    x0, x1, x2, x3 = four_values(first)
    k0 = (x0 * scale).to(tl.bfloat16)
    k1 = (x1 * scale).to(tl.bfloat16)
    k2 = (x2 * scale).to(tl.bfloat16)
    k3 = (x3 * scale).to(tl.bfloat16)
    scale = tl.where(lane < 16, tile_scale(w2, 0), tl.where(lane < 32, tile_scale(w2, 1), tile_scale(w3, 0)))
    x0, x1, x2, x3 = four_values(second)
    k4 = (x0 * scale).to(tl.bfloat16)
    k5 = (x1 * scale).to(tl.bfloat16)
    k6 = (x2 * scale).to(tl.bfloat16)
    k7 = (x3 * scale).to(tl.bfloat16)
    return k0, k1, k2, k3, k4, k5, k6, k7


@triton.jit
def key_slices(
    row,
    live,
    plane_ptr,
    plane_stride,
    rope_ptr,
    rope_stride,
    PACKED: tl.constexpr,
    QUADS: tl.constexpr,
    FNUZ: tl.constexpr,
    WORDS: tl.constexpr,
):
    """Some rows as nine bf16 slices [rows, 64], the last of no use without QUADS; zeros where a row is not live.

    A row that is not live is not read: what it holds may be NaN, which no multiplication by 0 would remove.

    Args:
        PACKED: rows are packed, which then are cut in QUADS.
        WORDS: whole words may be loaded, and the conversion of an NVIDIA GPU used.
    """
    start = plane_ptr + row_offset(row, plane_stride)
    if PACKED:
        if WORDS:
            k0, k1, k2, k3, k4, k5, k6, k7 = packed_quads(start, live)
        else:
            k0 = packed_slice(start, live, 0, FNUZ)
            k1 = packed_slice(start, live, 1, FNUZ)
            k2 = packed_slice(start, live, 2, FNUZ)
            k3 = packed_slice(start, live, 3, FNUZ)
            k4 = packed_slice(start, live, 4, FNUZ)
            k5 = packed_slice(start, live, 5, FNUZ)
            k6 = packed_slice(start, live, 6, FNUZ)
            k7 = packed_slice(start, live, 7, FNUZ)
        rope = tl.arange(0, 64)[None, :]
        k8 = tl.load(rope_ptr + row_offset(row, rope_stride)[:, None] + rope, mask=live[:, None], other=0.0)
    elif QUADS and WORDS:
        k0, k1, k2, k3 = plain_quads(start, live, 0)
        k4, k5, k6, k7 = plain_quads(start, live, 1)
        k8 = plain_slice(start, live, 8, True)
    else:
        k0 = plain_slice(start, live, 0, QUADS)
        k1 = plain_slice(start, live, 1, QUADS)
        k2 = plain_slice(start, live, 2, QUADS)
        k3 = plain_slice(start, live, 3, QUADS)
        k4 = plain_slice(start, live, 4, QUADS)
        k5 = plain_slice(start, live, 5, QUADS)
        k6 = plain_slice(start, live, 6, QUADS)
        k7 = plain_slice(start, live, 7, QUADS)
        k8 = plain_slice(start, live, 8, True) if QUADS else k7
    return k0, k1, k2, k3, k4, k5, k6, k7, k8
