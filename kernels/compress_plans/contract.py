"""Contract of the compress and write plans of one class."""

from __future__ import annotations

from kvproof.kernels.compress_plans.spec import compress_rows, padded, write_rows
from kvproof.models.contract import Access, Arguments, Clause, Contract, Index, Order, Scalar, Tensor, Tolerance
from kvproof.models.index import within

SEQUENCE = Index("b", stop=lambda a: a.bs)


def _compress(a: Arguments) -> list[tuple[int, int, int, int]]:
    return compress_rows(a.extend_lens, a.context_lens, a.ratio, a.overlap)


def _write(a: Arguments) -> list[tuple[int, int, int, int]]:
    return write_rows(a.extend_lens, a.context_lens, a.ratio, a.overlap, a.draft_tokens)


CONTRACT = Contract(
    name="make_compress_plans",
    summary="Lists the new tokens that complete a group, and those that go to the state rings.",
    arguments=(
        Tensor("extend_lens", "int32", ("bs",), "new tokens of each sequence"),
        Tensor("context_lens", "int32", ("bs",), "length of each sequence after them"),
        Tensor(
            "compress_plan", "int32", ("n_compress", 4), "row, sequence, position, ring positions", role="inout"
        ),
        Tensor("write_plan", "int32", ("n_write", 4), "row, sequence, position, unused", role="inout"),
        Scalar("ratio", "compress ratio"),
        Scalar("overlap", "whether entries overlap, as those of CSA do", kind="bool"),
        Scalar("draft_tokens", "new tokens that may be taken back"),
    ),
    requires=(
        Clause("ratio", "1 <= ratio, 0 <= draft_tokens", lambda a: (a.ratio >= 1) & (a.draft_tokens >= 0)),
        Clause(
            "lengths",
            "a sequence is at least as long as what is new of it",
            lambda a, b: (a.extend_lens[b] >= 0) & (a.extend_lens[b] <= a.context_lens[b]),
            over=(SEQUENCE,),
        ),
        Clause(
            "capacity",
            "the plans have room for their rows",
            lambda a: within(len(_compress(a)), 0, a.n_compress + 1) & within(len(_write(a)), 0, a.n_write + 1),
        ),
    ),
    tolerates=(
        Tolerance("stale plan", "rows that an earlier, larger batch left in the plans: overwritten by padding"),
        Tolerance("nothing new", "a sequence without new tokens, or no sequence at all: no rows"),
    ),
    accesses=(
        Access(
            "compress_plan",
            "must",
            (Index("i", stop=lambda a: a.n_compress),),
            when=lambda _a, _i: True,
            cell=lambda _a, i: (i,),
            words="a row for each new position whose group it completes, in the tokens' order; -1 behind them",
            value=lambda a, i: padded(_compress(a), a.n_compress)[i],
        ),
        Access(
            "write_plan",
            "must",
            (Index("i", stop=lambda a: a.n_write),),
            when=lambda _a, _i: True,
            cell=lambda _a, i: (i,),
            words="a row for each new position that a later entry may pool, in the tokens' order; -1 behind them",
            value=lambda a, i: padded(_write(a), a.n_write)[i],
        ),
    ),
    ordering=(Order("before", "fused_compress_attn", "which follows the plan"),),
    source="ROCm/ATOM, atom/model_ops/v4_kernels: ABI of make_compress_plans",
)
