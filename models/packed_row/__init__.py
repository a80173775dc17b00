"""The packed fp8 row of the KV pool, and the 8-bit float formats that it is made of."""

from kvproof.models.packed_row.formats import E4M3_FNUZ, E4M3_OCP, FORMATS, Float8
from kvproof.models.packed_row.rows import (
    LEAST_SCALE_EXPONENT,
    NOPE,
    PACKED_BYTES,
    ROPE,
    SCALE_AT,
    SCALE_BIAS,
    TILE,
    TILES,
    USED_BYTES,
    WIDTH,
    pack_rows,
    scale_exponent,
    unpack_rows,
)

__all__ = [
    "E4M3_FNUZ",
    "E4M3_OCP",
    "FORMATS",
    "LEAST_SCALE_EXPONENT",
    "NOPE",
    "PACKED_BYTES",
    "ROPE",
    "SCALE_AT",
    "SCALE_BIAS",
    "TILE",
    "TILES",
    "USED_BYTES",
    "WIDTH",
    "Float8",
    "pack_rows",
    "scale_exponent",
    "unpack_rows",
]
