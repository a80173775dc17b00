"""Contract of the window write in two planes."""

from __future__ import annotations

from kvproof.kernels.window_write.contract import CONTRACT as ONE_PLANE
from kvproof.kernels.window_write.contract import SEQUENCE, WRITTEN
from kvproof.kernels.window_write_planes.spec import destination
from kvproof.models.contract import Access, Arguments, Contract, Tensor
from kvproof.models.index import IndexValue, within

ROW_TYPES = ("bf16", "fp16", "fp32", "uint8")


def _row(a: Arguments, b: IndexValue, t: IndexValue) -> IndexValue:
    return destination(a.window, a.state_slot_per_seq[b], a.positions[t])


def _write(pool: str, source: str) -> Access:
    return Access(
        pool,
        "must",
        (SEQUENCE, WRITTEN),
        when=lambda a, b, t: within(_row(a, b, t), 0, a.rows),
        cell=lambda a, b, t: (_row(a, b, t),),
        words="the window row of each of the last min(tokens, write_per_batch) tokens, if the planes have it",
        value=lambda a, _b, t: getattr(a, source)[t],
    )


def _read(source: str) -> Access:
    return Access(source, "read", (SEQUENCE, WRITTEN), lambda _a, _b, _t: True, lambda _a, _b, t: (t,), "tokens")


CONTRACT = Contract(
    name="swa_write_2buff",
    summary="Writes both parts of the last tokens of each sequence to their window rows, in both planes.",
    arguments=(
        Tensor("k_packed", ROW_TYPES, ("T", "D"), "this forward's packed rows", strides="rows"),
        Tensor("k_rope", ROW_TYPES, ("T", "D_rope"), "this forward's RoPE rows", strides="rows"),
        Tensor("positions", ("int32", "int64"), ("T",), "absolute position of each token", longer=True),
        Tensor("cu_seqlens_q", "int32", ("bs1",), "first token of each sequence, and the end of the last"),
        Tensor("state_slot_per_seq", "int32", ("bs",), "physical slot of each sequence"),
        Tensor("pool", ROW_TYPES, ("rows", "D"), "the packed plane from the layer's base row on", "inout", "rows"),
        Tensor("pool_rope", ROW_TYPES, ("rows", "D_rope"), "the RoPE plane from the same row on", "inout", "rows"),
        *(argument for argument in ONE_PLANE.arguments if argument.name in {"window", "write_per_batch"}),
    ),
    requires=ONE_PLANE.requires,
    tolerates=ONE_PLANE.tolerates,
    accesses=(
        _write("pool", "k_packed"),
        _write("pool_rope", "k_rope"),
        _read("k_packed"),
        _read("k_rope"),
        *(access for access in ONE_PLANE.accesses if access.mode == "read" and access.buffer != "kv"),
    ),
    ordering=ONE_PLANE.ordering,
    source="ROCm/ATOM, atom/model_ops/v4_kernels: ABI of swa_write, two planes",
)
