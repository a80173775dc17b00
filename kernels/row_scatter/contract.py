"""Contract of the row scatter, one plane."""

from __future__ import annotations

from kvproof.kernels.row_scatter.spec import written
from kvproof.models.contract import Access, Arguments, Clause, Contract, Index, Order, Tensor, Tolerance
from kvproof.models.index import Condition, IndexValue

ROW_TYPES = ("bf16", "fp16", "fp32", "uint8")
TOKEN = Index("t", stop=lambda a: a.T)
LATER = Index("u", low=lambda _a, t: t + 1, stop=lambda a, _t: a.T)


def is_written(a: Arguments, t: IndexValue) -> Condition:
    """Whether token ``t`` is written."""
    return written(a.batch_id_per_token[t], a.dest_rows[t], a.rows)


def distinct(a: Arguments, t: IndexValue, u: IndexValue) -> Condition:
    """No two written tokens share a row."""
    return (
        (a.batch_id_per_token[t] < 0)
        | (a.batch_id_per_token[u] < 0)
        | (a.dest_rows[t] < 0)
        | (a.dest_rows[t] != a.dest_rows[u])
    )


DEST_ROWS = Tensor("dest_rows", "int32", ("n_dest",), "pool row of each token", longer=True)
BATCH_IDS = Tensor(
    "batch_id_per_token", "int32", ("n_ids",), "sequence of each token, -1 of a padded one", longer=True
)

REQUIRES = (
    Clause("lengths", "every token has a row and a batch id", lambda a: (a.n_dest >= a.T) & (a.n_ids >= a.T)),
    Clause("distinct rows", "no two live tokens share a row", distinct, over=(TOKEN, LATER)),
)
TOLERATES = (
    Tolerance("padded token", "a negative batch id: the token is not written, whatever its row says"),
    Tolerance("negative row", "a token with a negative row is not written"),
    Tolerance("stale row", "a row past the pool is dropped, never wrapped"),
    Tolerance("stale padding", "elements of dest_rows and batch_id_per_token past the batch do not matter"),
)
ORDERING = (
    Order("after", "write_v4_paged_decode_indices", "which computes the rows"),
    Order("before", "sparse_attn_v4_paged_decode", "a decode token attends to its own row"),
)


def reads(name: str) -> Access:
    """Every token's element (or row) of an input."""
    return Access(name, "read", (TOKEN,), lambda _a, _t: True, lambda _a, t: (t,), "every token's")


def write(pool: str, source: str) -> Access:
    """The rows of one plane that a launch writes."""
    return Access(
        pool,
        "must",
        (TOKEN,),
        when=is_written,
        cell=lambda a, t: (a.dest_rows[t],),
        words="the row of each token that is no padding and whose row the pool has",
        value=lambda a, t: getattr(a, source)[t],
    )


CONTRACT = Contract(
    name="swa_scatter_rows",
    summary="Writes each token's row to the row that the caller chose.",
    arguments=(
        Tensor("kv", ROW_TYPES, ("T", "D"), "this forward's rows", strides="rows"),
        DEST_ROWS,
        BATCH_IDS,
        Tensor("pool", ROW_TYPES, ("rows", "D"), "the plane from the layer's base row on", "inout", "rows"),
    ),
    requires=REQUIRES,
    tolerates=TOLERATES,
    accesses=(write("pool", "kv"), reads("kv"), reads("dest_rows"), reads("batch_id_per_token")),
    ordering=ORDERING,
    source="ROCm/ATOM, atom/model_ops/v4_kernels: ABI of swa_scatter_rows",
)
