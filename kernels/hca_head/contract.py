"""Contract of the HCA head."""

from __future__ import annotations

from kvproof.kernels.hca_head.spec import head_cells
from kvproof.kernels.index_spec import clamped, live_sequence
from kvproof.kernels.prefill_indices.spec import group_row, visible_groups
from kvproof.models.contract import Access, Arguments, Clause, Contract, Index, Order, Scalar, Tensor, Tolerance
from kvproof.models.index import INT32_MAX, Condition, IndexValue, maximum, within
from kvproof.models.row_space import HCA_RATIO


def served(a: Arguments) -> bool:
    """Whether the pool has HCA layers; without them nothing is written."""
    return HCA_RATIO in a.geometry.classes


def _head(a: Arguments, t: IndexValue) -> IndexValue:
    return head_cells(a.hca_indptr[t], a.hca_indptr[t + 1], a.positions[t], a.win)


TOKEN = Index("t", stop=lambda a: a.T if served(a) else 0)
GROUP = Index("k", stop=lambda a, t: maximum(_head(a, t), 0))


def _sequence(a: Arguments, t: IndexValue) -> IndexValue:
    return clamped(a.batch_id_per_token[t], a.bs)


def _written(a: Arguments, t: IndexValue, k: IndexValue) -> Condition:
    seen = visible_groups(a.positions[t], a.n_committed_hca_per_seq[_sequence(a, t)])
    inside = within(a.hca_indptr[t] + k, 0, a.n_cells)
    return live_sequence(a.batch_id_per_token[t], a.bs) & (k < seen) & inside


CONTRACT = Contract(
    name="write_v4_paged_decode_hca_head",
    summary="Writes the pool row of each complete HCA group to the head of its token's slice.",
    arguments=(
        Tensor("block_tables", "int32", ("bs", "columns"), "physical blocks of each sequence", strides="rows"),
        Tensor(
            "n_committed_hca_per_seq", "int32", ("bs",), "groups of each sequence after this forward", longer=True
        ),
        Tensor("batch_id_per_token", "int32", ("n_ids",), "sequence of each token, -1 of a padded one"),
        Tensor("positions", ("int32", "int64"), ("n_positions",), "absolute position of each token"),
        Tensor("hca_indptr", "int32", ("n_indptr",), "first cell of each token's slice, and the end of the last"),
        Tensor("hca_indices", "int32", ("n_cells",), "rows to attend to", role="inout"),
        Scalar("T", "tokens, padded ones among them"),
        Scalar("win", "window in tokens"),
        Scalar("geometry", "the pool's row space", kind="UnifiedPoolGeometry"),
    ),
    requires=(
        Clause(
            "lengths",
            "every token has an id, a position and a slice, every sequence a block column",
            lambda a: (
                (a.n_ids >= a.T)
                & (a.n_positions >= a.T)
                & (a.n_indptr >= a.T + 1)
                & (a.bs >= 1)
                & (a.columns >= 1)
            ),
        ),
        Clause("window", "1 <= win <= ring_slots", lambda a: within(a.win, 1, a.geometry.ring_slots + 1)),
        Clause("plane size", "rows fit 32 bits", lambda a: a.geometry.plane_rows <= INT32_MAX),
        Clause(
            "order",
            "slices follow one another: hca_indptr never falls",
            lambda a, t: a.hca_indptr[t] <= a.hca_indptr[t + 1],
            over=(Index("t", stop=lambda a: a.T),),
        ),
    ),
    tolerates=(
        Tolerance("padded token", "a batch id outside the batch: nothing is written for the token"),
        Tolerance("no block", "a block id that the plane has not, or a group past the table: -1"),
        Tolerance(
            "short slice", "a slice shorter than the window and the groups: as much as fits, nothing outside"
        ),
        Tolerance("stale count", "any number of committed groups: no group past the token's own is written"),
        Tolerance("absent class", "a pool without HCA layers: nothing is written"),
        Tolerance("stale padding", "elements past the batch do not matter"),
    ),
    accesses=(
        Access(
            "hca_indices",
            "must",
            (TOKEN, GROUP),
            when=_written,
            cell=lambda a, t, k: (a.hca_indptr[t] + k,),
            words="each live token's slice before its window: the groups complete at the token",
            value=lambda a, t, k: group_row(a.geometry, a.block_tables, _sequence(a, t), k, a.columns),
        ),
    ),
    ordering=(Order("before", "sparse_attn_v4_paged_decode", "which reads the slices"),),
    source="ROCm/ATOM: the host loop around hca_compress_paged_offsets",
)
