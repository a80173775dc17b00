"""Contract of the row scatter in two planes."""

from __future__ import annotations

from kvproof.kernels.row_scatter.contract import (
    BATCH_IDS,
    DEST_ROWS,
    ORDERING,
    REQUIRES,
    ROW_TYPES,
    TOLERATES,
    reads,
    write,
)
from kvproof.models.contract import Contract, Tensor

CONTRACT = Contract(
    name="swa_scatter_rows_2buff",
    summary="Writes both parts of each token's row to the row that the caller chose, in both planes.",
    arguments=(
        Tensor("k_packed", ROW_TYPES, ("T", "D"), "this forward's packed rows", strides="rows"),
        Tensor("k_rope", ROW_TYPES, ("T", "D_rope"), "this forward's RoPE rows", strides="rows"),
        DEST_ROWS,
        BATCH_IDS,
        Tensor("pool", ROW_TYPES, ("rows", "D"), "the packed plane from the layer's base row on", "inout", "rows"),
        Tensor("pool_rope", ROW_TYPES, ("rows", "D_rope"), "the RoPE plane from the same row on", "inout", "rows"),
    ),
    requires=REQUIRES,
    tolerates=TOLERATES,
    accesses=(
        write("pool", "k_packed"),
        write("pool_rope", "k_rope"),
        reads("k_packed"),
        reads("k_rope"),
        reads("dest_rows"),
        reads("batch_id_per_token"),
    ),
    ordering=ORDERING,
    source="ROCm/ATOM, atom/model_ops/v4_kernels: ABI of swa_scatter_rows, two planes",
)
