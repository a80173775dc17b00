"""The two model families of the mega kernels, and a tensor-parallel rank's share of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kvproof.models.errors import LayoutError
from kvproof.models.index import IndexValue, as_index, require

HEAD_DIM = 512
"""Elements of a head: 448 without position and 64 with."""

KV_DIM = 512
OUTPUT_RANK = 1024
WINDOW = 128
HEAD_TILE = 16
"""Heads that one matrix instruction of the attention takes."""

TOKEN_TILE = 16
"""Tokens of one pass over the weights."""

GROUP = 32
"""Elements that share one scale code."""

WOA_ROWS = 32
"""Output rows of one wo_a task: one group of its output, so that a task publishes whole groups."""

WQKV_K_PARTS = 2
"""Parts into which the first projection's reduction is split."""

HEADS_PER_FLAG = 8
"""Heads whose output one flag of the combine stage covers."""


@dataclass(frozen=True)
class ScratchFamily:
    """A model whose attention runs as two mega kernels.

    Attributes:
        name: "v4-pro" or "v4.1-flash".
        hidden: width of the hidden state.
        q_rank: width of the query latent.
        heads: attention heads of the model.
        groups: output groups of the model.
        topk: compressed keys that a token attends to.
        wider_topk: whether a layer may attend to more (HCA: every compressed key of a long context).
        max_tokens: tokens of a step at most.
        ranks: tensor-parallel sizes that are served.
    """

    name: str
    hidden: int
    q_rank: int
    heads: int
    groups: int
    topk: int
    wider_topk: bool
    max_tokens: int
    ranks: tuple[int, ...]


FAMILIES: Mapping[str, ScratchFamily] = {
    f.name: f
    for f in (
        ScratchFamily("v4-pro", 7168, 1536, 128, 16, 1024, True, 64, (1, 2, 4, 8)),
        ScratchFamily("v4.1-flash", 5120, 1280, 64, 8, 512, False, 48, (2, 4)),
    )
}


def _split(name: str, whole: int, parts: int, of: str) -> int:
    if whole % parts:
        raise LayoutError(f"{name} is {whole}, which {of} {parts} does not divide")
    return whole // parts


@dataclass(frozen=True)
class Dims:
    """A rank's share of a family: every count that the plans read.

    Attributes:
        family: the model.
        tp: ranks that share it.
        topk: compressed keys of a token at most; None for the family's. May be symbolic.

    Raises:
        LayoutError: a rank count or top-k that the family does not serve, or a split that leaves a rest.
    """

    family: ScratchFamily
    tp: int
    topk: IndexValue = None

    def __post_init__(self) -> None:
        as_index("tp", self.tp, at_least=1)
        if self.tp not in self.family.ranks:
            allowed = ", ".join(map(str, self.family.ranks))
            raise LayoutError(f"tp is {self.tp}; {self.family.name} is served with {allowed}")
        for whole, what in ((self.family.hidden, "hidden"), (self.family.q_rank, "q_rank")):
            _split(what, whole, GROUP, "the scale group")
        # Reading them makes each split refuse a rest.
        _ = (self.head_tiles, self.woa_tasks)
        if self.topk is None:
            object.__setattr__(self, "topk", self.family.topk)
        topk = as_index("topk", self.topk, at_least=0)
        object.__setattr__(self, "topk", topk)
        require(
            self.family.wider_topk | (topk == self.family.topk),
            f"topk is {{topk}}; {self.family.name} attends to {self.family.topk} compressed keys",
            topk=topk,
        )

    @property
    def name(self) -> str:
        """Name in reports: family and rank count."""
        return f"{self.family.name}-tp{self.tp}"

    @property
    def heads(self) -> int:
        """Heads of the rank."""
        return _split("heads", self.family.heads, self.tp, "tp")

    @property
    def head_tiles(self) -> int:
        """Tiles of 16 heads."""
        return _split("a rank's heads", self.heads, HEAD_TILE, "the head tile")

    @property
    def groups(self) -> int:
        """Output groups of the rank."""
        return _split("groups", self.family.groups, self.tp, "tp")

    @property
    def q_rows(self) -> int:
        """Elements of the rank's heads together."""
        return self.heads * HEAD_DIM

    @property
    def o_rows(self) -> int:
        """Output rows of the rank's groups together."""
        return self.groups * OUTPUT_RANK

    @property
    def woa_tasks(self) -> int:
        """Tasks of 32 output rows."""
        return _split("output rows", self.o_rows, WOA_ROWS, "a wo_a task")

    @property
    def qkv_rows(self) -> int:
        """Output rows of the first projection: query latent and kv."""
        return self.family.q_rank + KV_DIM

    @property
    def x_groups(self) -> int:
        """Scale groups of a hidden state."""
        return self.family.hidden // GROUP

    @property
    def keys(self) -> IndexValue:
        """Keys of a token at most: its compressed keys, then its window."""
        return self.topk + WINDOW

    def widened(self, topk: IndexValue) -> Dims:
        """The same share for a layer whose tokens attend to ``topk`` compressed keys."""
        return replace(self, topk=topk)


def dims(family: str, tp: int, topk: IndexValue = None) -> Dims:
    """A rank's share of a family by name.

    Raises:
        LayoutError: no such family, or what :class:`Dims` refuses.
    """
    if family not in FAMILIES:
        raise LayoutError(f"family is {family!r}; allowed: {', '.join(FAMILIES)}")
    return Dims(FAMILIES[family], tp, topk)


def scratch_systems() -> Mapping[str, Dims]:
    """A rank's share of every family at every rank count served, by name."""
    shares = [Dims(family, tp) for family in FAMILIES.values() for tp in family.ranks]
    return {share.name: share for share in shares}
