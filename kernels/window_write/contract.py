"""Contract of the window write, one plane."""

from __future__ import annotations

from kvproof.kernels.window_write.spec import destination, first_written
from kvproof.models.contract import Access, Arguments, Clause, Contract, Index, Order, Scalar, Tensor, Tolerance
from kvproof.models.index import INT32_MAX, Condition, IndexValue, within

SEQUENCE = Index("b", stop=lambda a: a.bs)
LATER = Index("c", low=lambda _a, b: b + 1, stop=lambda a, _b: a.bs)
TOKEN = Index("t", low=lambda a, b: a.cu_seqlens_q[b], stop=lambda a, b: a.cu_seqlens_q[b + 1])
WRITTEN = Index(
    "t",
    low=lambda a, b: first_written(a.cu_seqlens_q[b], a.cu_seqlens_q[b + 1], a.write_per_batch),
    stop=lambda a, b: a.cu_seqlens_q[b + 1],
)


def _row(a: Arguments, b: IndexValue, t: IndexValue) -> IndexValue:
    return destination(a.window, a.state_slot_per_seq[b], a.positions[t])


def _consecutive(a: Arguments, b: IndexValue, t: IndexValue) -> Condition:
    last = a.cu_seqlens_q[b + 1] - 1
    pos = a.positions[t]
    return (a.state_slot_per_seq[b] < 0) | (pos < 0) | (pos + (last - t) == a.positions[last])


def _own_slot(a: Arguments, b: IndexValue, c: IndexValue) -> Condition:
    slot, cu = a.state_slot_per_seq, a.cu_seqlens_q
    return (slot[b] < 0) | (slot[b] != slot[c]) | (cu[b] == cu[b + 1]) | (cu[c] == cu[c + 1])


def _ring_fits_slot(a: Arguments) -> Condition:
    # Runs never overlap, so the last ring position has the highest row.
    return a.window.ring_offset(a.window.ring_slots - 1) < a.window.slot_rows


CONTRACT = Contract(
    name="swa_write",
    summary="Writes the last tokens of each sequence to their window rows.",
    arguments=(
        Tensor("kv", ("bf16", "fp16", "fp32", "uint8"), ("T", "D"), "this forward's rows", strides="rows"),
        Tensor("positions", ("int32", "int64"), ("T",), "absolute position of each token", longer=True),
        Tensor("cu_seqlens_q", "int32", ("bs1",), "first token of each sequence, and the end of the last"),
        Tensor("state_slot_per_seq", "int32", ("bs",), "physical slot of each sequence"),
        Tensor(
            "pool",
            ("bf16", "fp16", "fp32", "uint8"),
            ("rows", "D"),
            "the plane from the layer's base row on",
            role="inout",
            strides="rows",
        ),
        Scalar("window", "window scalars of the layer's class", kind="WindowParams"),
        Scalar("write_per_batch", "tokens written of one sequence, at most"),
    ),
    requires=(
        Clause("lengths", "cu_seqlens_q has an end for every sequence", lambda a: a.bs1 >= a.bs + 1),
        Clause(
            "tokens", "sequences lie within kv", lambda a: (a.cu_seqlens_q[0] >= 0) & (a.cu_seqlens_q[a.bs] <= a.T)
        ),
        Clause(
            "order",
            "cu_seqlens_q never falls",
            lambda a, b: a.cu_seqlens_q[b] <= a.cu_seqlens_q[b + 1],
            over=(SEQUENCE,),
        ),
        Clause(
            "consecutive",
            "positions of one sequence are consecutive; a token with a negative one may only come before",
            _consecutive,
            over=(SEQUENCE, TOKEN),
        ),
        Clause("own slot", "no two sequences with tokens share a slot", _own_slot, over=(SEQUENCE, LATER)),
        Clause(
            "no two on a row",
            "0 <= write_per_batch <= ring_slots",
            lambda a: within(a.write_per_batch, 0, a.window.ring_slots + 1),
        ),
        Clause("ring fits", "a ring's rows are fewer than a slot's", _ring_fits_slot),
        Clause(
            "window sizes",
            "every window scalar fits 32 bits",
            lambda a: (
                (a.window.slot_rows <= INT32_MAX)
                & (a.window.ring_slots <= INT32_MAX)
                & (a.window.ring_stride <= INT32_MAX)
                & (a.window.run_rows <= INT32_MAX)
                & within(a.window.ring_start, -INT32_MAX, INT32_MAX + 1)
            ),
        ),
    ),
    tolerates=(
        Tolerance("padding slot", "a negative slot: no token of its sequence is written"),
        Tolerance("stale slot", "a slot outside the plane: rows outside the pool are dropped, never wrapped"),
        Tolerance("negative position", "a token at a negative position is not written"),
        Tolerance("stale padding", "rows of kv, positions and cu_seqlens_q past the batch do not matter"),
    ),
    accesses=(
        Access(
            "pool",
            "must",
            (SEQUENCE, WRITTEN),
            when=lambda a, b, t: within(_row(a, b, t), 0, a.rows),
            cell=lambda a, b, t: (_row(a, b, t),),
            words="the window row of each of the last min(tokens, write_per_batch) tokens, if the pool has it",
            value=lambda a, _b, t: a.kv[t],
        ),
        Access(
            "kv", "read", (SEQUENCE, WRITTEN), lambda _a, _b, _t: True, lambda _a, _b, t: (t,), "tokens written"
        ),
        Access(
            "positions", "read", (SEQUENCE, WRITTEN), lambda _a, _b, _t: True, lambda _a, _b, t: (t,), "likewise"
        ),
        Access(
            "state_slot_per_seq", "read", (SEQUENCE,), lambda _a, _b: True, lambda _a, b: (b,), "every sequence"
        ),
        Access(
            "cu_seqlens_q",
            "read",
            (Index("b", stop=lambda a: a.bs + 1),),
            lambda _a, _b: True,
            lambda _a, b: (b,),
            "every sequence's bounds",
        ),
    ),
    ordering=(
        Order("before", "sparse_attn_v4_paged_decode", "a decode token attends to its own row"),
        Order(
            "after", "sparse_attn_v4_paged_prefill", "a chunk's tail overwrites rows that the chunk still reads"
        ),
    ),
    source="ROCm/ATOM, atom/model_ops/v4_kernels: ABI of swa_write",
)
