"""What the two attention kernels of a layer exchange through scratch memory, and where it lies.

*Front* projects the hidden state and quantises the query latent; *back* attends (a split over chunks of keys, then
a combine step) and projects the heads' outputs. Both are launched with one tag and share one buffer: the back
kernel's regions begin past the front's. Region names are those of the public plan module.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from kvproof.models.errors import LayoutError
from kvproof.models.index import IndexValue, as_index, cdiv, round_up, select
from kvproof.models.scratch.dims import (
    GROUP,
    HEAD_DIM,
    HEADS_PER_FLAG,
    WOA_ROWS,
    WQKV_K_PARTS,
    Dims,
)
from kvproof.models.scratch.layout import (
    ALIGN_BYTES,
    PAIR_BYTES,
    TOTAL_ALIGN_BYTES,
    Layout,
    Region,
    byte_layout,
    layout_end,
)

CHUNKS = (64, 128)
"""Keys of a chunk of the split attention."""

SMALL_CHUNK_TASKS = 256
"""Chunks of 64 are taken while a task a (token, chunk) stays within one wave of work groups."""


def chunk_keys(tokens: IndexValue, d: Dims) -> IndexValue:
    """Keys of a chunk: 64 for two head tiles and few tasks, else 128."""
    if d.head_tiles != 2:
        return CHUNKS[1]
    return select(tokens * cdiv(d.keys, CHUNKS[0]) <= SMALL_CHUNK_TASKS, CHUNKS[0], CHUNKS[1])


def chunk_count(keys: IndexValue, chunk: IndexValue) -> IndexValue:
    """Chunks that ``keys`` keys are cut into; ``chunk`` is one of :data:`CHUNKS`."""
    # Each size is a number of its own here: dividing by a choice would be a division by a variable.
    return select(chunk == CHUNKS[0], cdiv(keys, CHUNKS[0]), cdiv(keys, CHUNKS[1]))


def front_regions(tokens: IndexValue, d: Dims) -> tuple[Region, ...]:
    """The front kernel's regions, in order."""
    s, codes = ("token", tokens), 4
    latent_groups = d.family.q_rank // GROUP
    return (
        Region("x8", (s, ("hidden", d.family.hidden)), 1, "data", "hidden state in e4m3", "quantise", "wqkv"),
        Region("x8s", (s, ("group", d.x_groups)), codes, "data", "its scale codes, int32", "quantise", "wqkv"),
        Region("xrdy", (("part", WQKV_K_PARTS), s), PAIR_BYTES, "flag", "x8 is there", "quantise", "wqkv"),
        Region(
            "qkvp",
            (("part", WQKV_K_PARTS), s, ("row", d.qkv_rows)),
            PAIR_BYTES,
            "pair",
            "partial sums of the first projection",
            "wqkv",
            "norm",
        ),
        Region("qx8", (s, ("rank", d.family.q_rank)), 1, "data", "query latent in e4m3", "norm", "wq_b"),
        Region("qx8s", (s, ("group", latent_groups)), codes, "data", "its scale codes, int32", "norm", "wq_b"),
        Region("qrdy", (s,), PAIR_BYTES, "flag", "qx8 is there", "norm", "wq_b"),
    )


def back_regions(tokens: IndexValue, d: Dims, chunk: IndexValue = None) -> tuple[Region, ...]:
    """The back kernel's regions, in order.

    Args:
        tokens: tokens of the step.
        d: the rank's dimensions.
        chunk: keys of a chunk; by default the plan's choice.
    """
    chunk = chunk_keys(tokens, d) if chunk is None else chunk
    s, h = ("token", tokens), ("head", d.heads)
    c = ("chunk", chunk_count(d.keys, chunk))
    return (
        Region("part", (s, c, h, ("dim", HEAD_DIM)), 2, "data", "partial outputs, bf16", "split", "combine"),
        Region("pstat", (s, c, h, ("stat", 2)), 4, "data", "their (max, sum), fp32", "split", "combine"),
        Region("srdy", (s, c), PAIR_BYTES, "flag", "a chunk is there", "split", "combine"),
        Region("xo", (s, ("row", d.q_rows)), 1, "data", "attention output in e4m3", "combine", "wo_a"),
        Region("xos", (s, ("group", d.q_rows // GROUP)), 4, "data", "its scale codes, int32", "combine", "wo_a"),
        Region(
            "crdy",
            (s, ("heads", d.heads // HEADS_PER_FLAG)),
            PAIR_BYTES,
            "flag",
            "eight heads of xo are there",
            "combine",
            "wo_a",
        ),
        Region("x8b", (s, ("row", d.o_rows)), 1, "data", "wo_a output in e4m3", "wo_a", "wo_b"),
        Region("x8bs", (s, ("group", d.o_rows // WOA_ROWS)), 4, "data", "its scale codes, int32", "wo_a", "wo_b"),
        Region("ardy", (("task", d.woa_tasks),), PAIR_BYTES, "flag", "32 rows of x8b are there", "wo_a", "wo_b"),
    )


def _sizes(regions: tuple[Region, ...]) -> list[tuple[str, IndexValue]]:
    return [(region.name, region.nbytes) for region in regions]


def front_scratch(s: IndexValue, d: Dims) -> dict[str, tuple[IndexValue, IndexValue]]:
    """The front kernel's layout: region name to (byte offset, bytes)."""
    return byte_layout(_sizes(front_regions(s, d)))


def front_end(s: IndexValue, d: Dims) -> IndexValue:
    """Where the back kernel's regions start: past the front's, since both run under one launch tag."""
    return round_up(layout_end(front_scratch(s, d)), ALIGN_BYTES)


def back_scratch(s: IndexValue, d: Dims, start: IndexValue = 0) -> dict[str, tuple[IndexValue, IndexValue]]:
    """The back kernel's layout past ``start``: region name to (byte offset, bytes)."""
    return byte_layout(_sizes(back_regions(s, d)), start=start)


@dataclass(frozen=True)
class ScratchPlan:
    """Both kernels' layouts for one step width.

    Attributes:
        dims: the rank's dimensions.
        tokens: tokens of the step, from 1 to the family's most (index value).
        chunk: keys of a chunk; None for the plan's choice.

    Raises:
        LayoutError: a token count that the family does not serve, or a chunk that no kernel takes.
    """

    dims: Dims
    tokens: IndexValue
    chunk: IndexValue = None

    def __post_init__(self) -> None:
        most = self.dims.family.max_tokens
        object.__setattr__(self, "tokens", as_index("tokens", self.tokens, at_least=1, below=most + 1))
        if self.chunk is None:
            object.__setattr__(self, "chunk", chunk_keys(self.tokens, self.dims))
        elif self.chunk not in CHUNKS:
            raise LayoutError(f"chunk is {self.chunk!r}; allowed: {', '.join(map(str, CHUNKS))}")

    @property
    def chunks(self) -> IndexValue:
        """Chunks that a token's keys are cut into."""
        return chunk_count(self.dims.keys, self.chunk)

    @cached_property
    def regions(self) -> dict[str, Region]:
        """Every region by name, the front kernel's first."""
        front = front_regions(self.tokens, self.dims)
        back = back_regions(self.tokens, self.dims, self.chunk)
        return {region.name: region for region in (*front, *back)}

    @cached_property
    def front(self) -> Layout:
        """The front kernel's layout."""
        return front_scratch(self.tokens, self.dims)

    @cached_property
    def back_start(self) -> IndexValue:
        """First byte that the back kernel may use."""
        return front_end(self.tokens, self.dims)

    @cached_property
    def back(self) -> Layout:
        """The back kernel's layout."""
        return byte_layout(_sizes(back_regions(self.tokens, self.dims, self.chunk)), start=self.back_start)

    @cached_property
    def layout(self) -> Layout:
        """Both layouts."""
        return {**self.front, **self.back}

    @cached_property
    def total_bytes(self) -> IndexValue:
        """Bytes of the buffer, a multiple of 4096."""
        return round_up(layout_end(self.layout), TOTAL_ALIGN_BYTES)

    def offset(self, name: str, *indices: IndexValue) -> IndexValue:
        """Byte of one element of a region: the one address formula of publisher and consumer.

        Raises:
            LayoutError: an index outside the region.
        """
        region = self.regions[name]
        return self.layout[name][0] + region.element(*indices) * region.element_bytes
