"""Contract of unpacking."""

from __future__ import annotations

from kvproof.kernels.fp8_pack.spec import known_variant
from kvproof.kernels.fp8_unpack.spec import unpacked_row
from kvproof.models.contract import Access, Clause, Contract, Index, Scalar, Tensor, Tolerance
from kvproof.models.packed_row import PACKED_BYTES, ROPE, WIDTH

EACH = (Index("i", stop=lambda a: a.N),)


def _always(_a: object, _i: object) -> bool:
    return True


CONTRACT = Contract(
    name="dequantize_v4_2buff_to_bf16",
    summary="Unpacks 512-byte fp8 rows and their RoPE elements to bf16 rows.",
    arguments=(
        Tensor("packed", ("uint8", "fp8"), ("N", PACKED_BYTES), "packed rows", strides="rows"),
        Tensor("rope", "bf16", ("N", ROPE), "RoPE elements", strides="rows"),
        Tensor("out", "bf16", ("N", WIDTH), "rows", role="out", strides="rows"),
        Scalar("variant", "e4m3 variant: ocp or fnuz", kind="str"),
    ),
    requires=(Clause("variant", "variant is ocp or fnuz", lambda a: known_variant(a.variant)),),
    tolerates=(
        Tolerance(
            "any bytes", "a row that no one packed gives what its bytes say; the second scale byte is ignored"
        ),
    ),
    accesses=(
        Access(
            "out",
            "must",
            EACH,
            when=_always,
            cell=lambda _a, i: (i,),
            words="every row",
            bound=lambda a, i: unpacked_row(a.packed[i], a.rope[i], a.variant),
        ),
        Access("packed", "read", EACH, when=_always, cell=lambda _a, i: (i,), words="every row"),
        Access("rope", "read", EACH, when=_always, cell=lambda _a, i: (i,), words="every row"),
    ),
    source="ROCm/ATOM, atom/model_ops/v4_kernels: ABI of the packed row (v4_quant)",
)
