"""e4m3 encoding and decoding on the device, in integer arithmetic: exact on every device, in both variants.

Hardware has at most one of the two variants, and a conversion instruction's overflow and NaN rules differ
between vendors; bits do not.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from kvproof.models.packed_row import FORMATS

PACKED_DTYPES = (torch.uint8, torch.float8_e4m3fn, torch.float8_e4m3fnuz)
"""Element types of a packed plane: bytes, whatever they are called."""

INFINITY = tl.constexpr(0x7F800000)
TWO_TO_119 = tl.constexpr(2.0**119)
TWO_TO_120 = tl.constexpr(2.0**120)


@triton.jit
def bits_of_bf16(x):
    """Bits of a bf16 as fp32. A conversion would give a NaN the sign and payload that the device likes best."""
    return x.to(tl.int16, bitcast=True).to(tl.int32) << 16


@triton.jit
def finite_or_zero(bits):
    """Bits of magnitudes, 0 in place of infinity and NaN. As integers they are ordered like the magnitudes."""
    return tl.where(bits < INFINITY, bits, 0)


@triton.jit
def tile_exponent(largest, FNUZ: tl.constexpr):
    """Exponent of a tile's scale, ``max(ceil(log2(amax / fp8_max)), -13)``, from the magnitude bits of amax.

    Exact: the exponents' difference, and one more if amax's mantissa is above fp8_max's (448 = 1.75 * 2^8,
    240 = 1.875 * 2^7); adding what a mantissa lacks to pass it carries into the exponent.
    """
    short_of_next = 0x0FFFFF if FNUZ else 0x1FFFFF
    bias = 127 + 7 if FNUZ else 127 + 8
    return tl.maximum(((largest + short_of_next) >> 23) - bias, -13)


@triton.jit
def power_of_two(exponent):
    """``2^exponent`` in fp32, for ``-126 <= exponent <= 127``."""
    return ((exponent + 127) << 23).to(tl.float32, bitcast=True)


@triton.jit
def encode_e4m3(y, sign, FNUZ: tl.constexpr):
    """Code (int32, 0..255) of the nearest e4m3 value, ties to even; overflow and NaN give NaN.

    Args:
        y: magnitude, fp32.
        sign: 0 or 0x80.
    """
    bits = tl.minimum(y.to(tl.int32, bitcast=True), INFINITY)
    # Normal: round the mantissa to 3 bits (a carry moves the exponent on) and exchange the exponent's bias.
    normal = (bits + 0x7FFFF + ((bits >> 20) & 1)) >> 20
    # Subnormal: beside 2^14 (2^13) an fp32's last bit is worth one e4m3 step, so an addition rounds to steps.
    if FNUZ:
        low = (y + 8192.0).to(tl.int32, bitcast=True) - 0x46000000
        code = tl.where(bits < 0x3C000000, low, normal - (119 << 3))
        code = tl.where(code > 0x7F, 0x80, tl.where(code > 0, code | sign, 0))
    else:
        low = (y + 16384.0).to(tl.int32, bitcast=True) - 0x46800000
        code = tl.where(bits < 0x3C800000, low, normal - (120 << 3))
        code = tl.minimum(code, 0x7F) | sign
    return code


@triton.jit
def encode_tiles(bits, FNUZ: tl.constexpr, NATIVE: tl.constexpr):
    """Codes (int32, of which the low byte counts) and scale exponents of tiles.

    Args:
        bits: [n, 8, 64] fp32 bits of the elements.
        NATIVE: use the conversion instruction of an NVIDIA GPU. It has the OCP variant; a scaled finite
            magnitude never overflows, so that it saturates does not matter.

    Returns:
        ([n, 8, 64] codes, [n, 8] exponents).
    """
    size = bits & 0x7FFFFFFF
    exponent = tile_exponent(tl.max(finite_or_zero(size), axis=2), FNUZ)
    factor = power_of_two(-exponent)[:, :, None]
    if NATIVE:
        y = bits.to(tl.float32, bitcast=True) * factor
        code = y.to(tl.float8e4nv).to(tl.uint8, bitcast=True).to(tl.int32)
        # The top byte of an infinity's or a NaN's bits is the code of a NaN of that sign.
        code = tl.where(size < INFINITY, code, bits >> 24)
    else:
        code = encode_e4m3(size.to(tl.float32, bitcast=True) * factor, (bits >> 24) & 0x80, FNUZ)
    return code, exponent


@triton.jit
def store_packed(packed_row, live, code, exponent):
    """Write packed rows whole: codes, scales and padding, each byte once.

    Args:
        packed_row: [n] pointers to the rows' first bytes.
        live: [n] rows to write.
        code: [n, 8, 64] codes; tile 7 is none of a packed row's.
        exponent: [n, 8] scale exponents.
    """
    tile = tl.arange(0, 8)
    place = tl.arange(0, 64)
    cells = live[:, None, None] & (tile < 7)[None, :, None] & (place >= 0)[None, None, :]
    column = (tile * 64)[None, :, None] + place[None, None, :]
    tl.store(packed_row[:, None, None] + column, code.to(tl.uint8), mask=cells)
    scales = live[:, None] & (tile < 7)[None, :]
    byte = (exponent + 127).to(tl.uint8)
    scale_ptr = packed_row[:, None] + 448 + (2 * tile)[None, :]
    tl.store(scale_ptr, byte, mask=scales)
    tl.store(scale_ptr + 1, byte, mask=scales)
    padding = live[:, None] & (place >= 14)[None, :]
    tl.store(packed_row[:, None] + 448 + place[None, :], tl.zeros_like(place).to(tl.uint8)[None, :], mask=padding)


@triton.jit
def decode_e4m3(code, FNUZ: tl.constexpr):
    """fp32 value of an e4m3 code (uint8 or wider).

    The code's exponent and mantissa are put where an fp32 has them, subnormal codes becoming subnormal fp32;
    the factor then exchanges the exponent's bias, exactly.
    """
    wide = code.to(tl.int32)
    bits = ((wide & 0x80) << 24) | ((wide & 0x7F) << 20)
    mask = 0xFF if FNUZ else 0x7F
    nan = 0x80 if FNUZ else 0x7F
    bits = tl.where((wide & mask) == nan, 0x7FC00000, bits)
    factor = TWO_TO_119 if FNUZ else TWO_TO_120
    return bits.to(tl.float32, bitcast=True) * factor


@triton.jit
def scale_of_byte(byte):
    """fp32 scale of a scale byte: ``2^(byte - 127)``, 0 for byte 0 and NaN for byte 255."""
    bits = byte.to(tl.int32) << 23
    return tl.where(bits < INFINITY, bits, 0x7FC00000).to(tl.float32, bitcast=True)


def is_fnuz(variant: str) -> bool:
    """Whether an e4m3 variant's name means the fnuz one.

    Raises:
        ValueError: no such variant.
    """
    if variant not in FORMATS:
        raise ValueError(f"variant must be one of {', '.join(FORMATS)}, got {variant!r}")
    return variant == "fnuz"


def as_bytes(packed: torch.Tensor) -> torch.Tensor:
    """A packed plane as uint8, whatever 8-bit type it is called by."""
    return packed if packed.dtype == torch.uint8 else packed.view(torch.uint8)


def has_native_e4m3(like: Any) -> bool:
    """Whether a tensor's device converts fp32 to OCP e4m3 by an instruction that this project relies on."""
    device = like.device
    return (
        device.type == "cuda" and torch.version.hip is None and torch.cuda.get_device_capability(device) >= (8, 9)
    )
