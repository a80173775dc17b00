"""Contract of the dequantising window gather."""

from __future__ import annotations

from kvproof.kernels.fp8_pack.spec import known_variant
from kvproof.kernels.window_gather.contract import (
    ANCHORS,
    CELL,
    ORDERING,
    REQUEST,
    REQUIRES,
    SCALARS,
    SLOTS,
    TOLERATES,
    reads,
    row_of,
)
from kvproof.kernels.window_gather_planes.spec import unpacked_cells
from kvproof.models.contract import Access, Clause, Contract, Scalar, Tensor
from kvproof.models.packed_row import PACKED_BYTES, ROPE, WIDTH

CONTRACT = Contract(
    name="dspark_paged_window_gather_2buff",
    summary="Unpacks the last draft_window positions of each request to a dense bf16 tensor.",
    arguments=(
        Tensor(
            "pool",
            ("uint8", "fp8"),
            ("rows", PACKED_BYTES),
            "the packed plane from the layer's base row on",
            "in",
            "rows",
        ),
        Tensor("pool_rope", "bf16", ("rows", ROPE), "the RoPE plane from the same row on", "in", "rows"),
        SLOTS,
        ANCHORS,
        Tensor("out", "bf16", ("B", "n_window", WIDTH), "windows, oldest position first", role="out"),
        *SCALARS,
        Scalar("variant", "e4m3 variant: ocp or fnuz", kind="str"),
    ),
    requires=(*REQUIRES, Clause("variant", "variant is ocp or fnuz", lambda a: known_variant(a.variant))),
    tolerates=TOLERATES,
    accesses=(
        Access(
            "out",
            "must",
            (REQUEST, CELL),
            when=lambda _a, _b, _s: True,
            cell=lambda _a, b, s: (b, s),
            words="every cell: the row of its position unpacked, or zeros",
            bound=lambda a, b, s: unpacked_cells(a.pool, a.pool_rope, row_of(a, b, s), a.variant),
        ),
        reads("pool"),
        reads("pool_rope"),
    ),
    ordering=ORDERING,
    source="ROCm/ATOM, atom/model_ops/v4_kernels: ABI of dspark_paged_window_gather_2buff",
)
