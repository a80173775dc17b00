"""Contract of packing."""

from __future__ import annotations

from kvproof.kernels.fp8_pack.spec import known_variant, packed_row, rope_row
from kvproof.models.contract import Access, Clause, Contract, Index, Scalar, Tensor, Tolerance
from kvproof.models.packed_row import PACKED_BYTES, ROPE, WIDTH

EACH = (Index("i", stop=lambda a: a.N),)


def _always(_a: object, _i: object) -> bool:
    return True


CONTRACT = Contract(
    name="quantize_bf16_to_v4_2buff",
    summary="Packs bf16 rows: NoPE elements to 512-byte fp8 rows, RoPE elements to a plane of their own.",
    arguments=(
        Tensor("src", "bf16", ("N", WIDTH), "rows: 448 NoPE elements, then 64 RoPE elements", strides="rows"),
        Tensor("packed", ("uint8", "fp8"), ("N", PACKED_BYTES), "packed rows", role="out", strides="rows"),
        Tensor("rope", "bf16", ("N", ROPE), "RoPE elements", role="out", strides="rows"),
        Scalar("variant", "e4m3 variant: ocp or fnuz", kind="str"),
    ),
    requires=(Clause("variant", "variant is ocp or fnuz", lambda a: known_variant(a.variant)),),
    tolerates=(
        Tolerance("not finite", "a NaN or an infinity becomes a NaN; the rest of its tile is as without it"),
    ),
    accesses=(
        Access(
            "packed",
            "must",
            EACH,
            when=_always,
            cell=lambda _a, i: (i,),
            words="every byte of every packed row",
            value=lambda a, i: packed_row(a.src[i], a.variant),
        ),
        Access(
            "rope",
            "must",
            EACH,
            when=_always,
            cell=lambda _a, i: (i,),
            words="every row",
            value=lambda a, i: rope_row(a.src[i]),
        ),
        Access("src", "read", EACH, when=_always, cell=lambda _a, i: (i,), words="every row"),
    ),
    source="ROCm/ATOM, atom/model_ops/v4_kernels: ABI of the packed row (v4_quant)",
)
