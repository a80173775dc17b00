"""Regions of a scratch plan: apart, aligned, inside the buffer, and of sizes that hold what they are for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from kvproof.models.index import INT32_MAX, Condition, cdiv, negate, within
from kvproof.models.scratch import (
    ALIGN_BYTES,
    CHUNKS,
    GROUP,
    HEAD_TILE,
    HEADS_PER_FLAG,
    SMALL_CHUNK_TASKS,
    TAG_PERIOD,
    TOKEN_TILE,
    TOTAL_ALIGN_BYTES,
    Dims,
    ScratchPlan,
    byte_layout,
    launch_tag,
    layout_end,
)
from kvproof.properties.statement import Chooser, Needs, statement

WIDEST_TOPK = 8192
"""Compressed keys of a context of a million tokens, one to 128."""

FLAGS = ("xrdy", "qkvp", "qrdy", "srdy", "crdy", "ardy")
WORD = 8
"""Bytes of one store of a 32-bit value and a 32-bit tag."""

CODES = {"x8s": "x8", "qx8s": "qx8", "xos": "xo", "x8bs": "x8b"}
"""Regions of scale codes, and the data whose groups they belong to."""


def choose_dims(dims: Dims, choose: Chooser, widest: int = INT32_MAX, low: int = 1) -> Dims:
    """The rank's dimensions for a layer of any top-k that the family serves."""
    if not dims.family.wider_topk:
        return dims
    return dims.widened(choose.integer("topk", low, widest, few=low + 2))


def choose_plan(
    dims: Dims, choose: Chooser, widest: int = INT32_MAX, chunks: Sequence[int | None] | None = None
) -> ScratchPlan:
    """Any step width, any top-k, and any chunk: the plan's choice (None) or either of the two by force."""
    if chunks is None:
        # Without two head tiles the plan's choice is always the larger of the two.
        chunks = (None, *CHUNKS) if dims.head_tiles == 2 else CHUNKS
    tokens = choose.integer("tokens", 1, dims.family.max_tokens, few=4)
    chunk = choose.pick("chunk", chunks)
    return ScratchPlan(choose_dims(dims, choose, widest), tokens, chunk)


def region_names(dims: Dims) -> tuple[str, ...]:
    """Names of the regions in layout order; they depend on no size."""
    return tuple(ScratchPlan(dims, 1).regions)


def _all(conditions: Iterable[Condition]) -> Condition:
    """All of them hold."""
    together: Condition = True
    for condition in conditions:
        together = together & condition
    return together


@statement(
    "scratch/aligned",
    "Every region starts at a multiple of 256 bytes, and the back kernel's part of the buffer does.",
    system="scratch",
    needs=Needs(50, {"odd token count": 10}),
    twin="512 bytes",
)
def regions_aligned(dims: Dims, choose: Chooser, slip: int = 0) -> Condition:
    plan = choose_plan(dims, choose)
    choose.event("odd token count", plan.tokens % 2 == 1)
    align = ALIGN_BYTES * (1 + slip)
    for name, (offset, _) in plan.layout.items():
        choose.lemma(f"{name} is aligned", offset % align == 0)
    return plan.back_start % align == 0


@statement(
    "scratch/regions apart",
    "No two regions share a byte: each ends before the next one starts.",
    system="scratch",
    needs=Needs(50, {"an end is unaligned": 5}),
    twin="every region one byte longer",
)
def regions_apart(dims: Dims, choose: Chooser, slip: int = 0) -> Condition:
    plan = choose_plan(dims, choose)
    spans = list(plan.layout.values())
    choose.event("an end is unaligned", negate(_all((at + n) % ALIGN_BYTES == 0 for at, n in spans)))
    follow = _all(at + n + slip <= after for (at, n), (after, _) in pairwise(spans))
    return follow & _all(n >= 1 for _, n in spans)


@statement(
    "scratch/inside",
    "Every region lies in the buffer, whose size is the least multiple of 4096 that holds them.",
    system="scratch",
    needs=Needs(50, {"several tokens": 10}),
    twin="one page less",
)
def regions_inside(dims: Dims, choose: Chooser, slip: int = 0) -> Condition:
    plan = choose_plan(dims, choose)
    choose.event("several tokens", plan.tokens >= 2)
    total = plan.total_bytes - slip * TOTAL_ALIGN_BYTES
    end = layout_end(plan.layout)
    inside = _all((at >= 0) & (at + n <= end) for at, n in plan.layout.values())
    least = (end <= total) & (total - end < TOTAL_ALIGN_BYTES) & (total % TOTAL_ALIGN_BYTES == 0)
    return inside & least


@statement(
    "scratch/back past front",
    "The back kernel's regions start past the front kernel's, which share its launch tag, and no 256 bytes later.",
    system="scratch",
    needs=Needs(50, {"odd token count": 10}),
    twin="the back kernel starts 256 bytes earlier",
)
def back_past_front(dims: Dims, choose: Chooser, slip: int = 0) -> Condition:
    plan = choose_plan(dims, choose)
    choose.event("odd token count", plan.tokens % 2 == 1)
    start = plan.back_start - slip * ALIGN_BYTES
    sizes = [(name, region.nbytes) for name, region in plan.regions.items() if name in plan.back]
    back = byte_layout(sizes, start=start)
    past = _all(at + n <= start for at, n in plan.front.values()) & _all(at >= start for at, _ in back.values())
    return past & (start - layout_end(plan.front) < ALIGN_BYTES)


@statement(
    "scratch/codes",
    "There is exactly one scale code for every 32 elements of its data region, and one flag for every 8 heads.",
    system="scratch",
    needs=Needs(50, {"several tokens": 10}),
    twin="33 elements, 9 heads",
)
def codes_cover(dims: Dims, choose: Chooser, slip: int = 0) -> Condition:
    plan = choose_plan(dims, choose)
    codes = choose.pick("codes", (*CODES, "crdy", "ardy"))
    choose.event("several tokens", plan.tokens >= 2)
    count = plan.regions[codes].elements
    if codes == "crdy":
        return count * (HEADS_PER_FLAG + slip) == plan.tokens * plan.dims.heads
    if codes == "ardy":
        return count * (GROUP + slip) == plan.dims.o_rows
    return count * (GROUP + slip) == plan.regions[CODES[codes]].elements


@statement(
    "scratch/chunks",
    "Every key of a token lies in exactly one chunk, no chunk is empty, whichever size is chosen.",
    system="scratch",
    needs=Needs(50, {"last chunk is partial": 5, "chunks of 64": 5}),
    twin="one chunk fewer",
)
def chunks_cover(dims: Dims, choose: Chooser, slip: int = 0) -> Condition:
    plan = choose_plan(dims, choose, chunks=(None, *CHUNKS))
    keys, chunk, chunks = plan.dims.keys, plan.chunk, plan.chunks - slip
    key = choose.integer("key", 0, keys - 1, few=3)
    choose.event("last chunk is partial", keys % chunk != 0)
    choose.event("chunks of 64", chunk == 64)
    # The chunk may be a choice between the two sizes; each is a number on its own.
    covered = [
        (chunk != size) | ((key // size < chunks) & (chunks * size >= keys) & ((plan.chunks - 1) * size < keys))
        for size in CHUNKS
    ]
    return covered[0] & covered[1] & ((chunk == CHUNKS[0]) | (chunk == CHUNKS[1]))


@statement(
    "scratch/tiles",
    "Tiles of 16 tokens cover every token of a step, and tiles of 16 heads every head of the rank without a rest.",
    system="scratch",
    needs=Needs(50, {"partial tile": 5}),
    twin="one tile fewer",
)
def tiles_cover(dims: Dims, choose: Chooser, slip: int = 0) -> Condition:
    tokens = choose.integer("tokens", 1, dims.family.max_tokens)
    token = choose.integer("token", 0, tokens - 1)
    tiles = cdiv(tokens, TOKEN_TILE) - slip
    choose.event("partial tile", tokens % TOKEN_TILE != 0)
    return (token // TOKEN_TILE < tiles) & (dims.head_tiles * HEAD_TILE == dims.heads)


@statement(
    "scratch/whole ranks",
    "The ranks' shares of heads, groups, rows and tasks are whole and together are the model's.",
    system="scratch",
    needs=Needs(20, {"asked": 20}),
    twin="one rank more",
)
def whole_ranks(dims: Dims, choose: Chooser, slip: int = 0) -> Condition:
    rank = choose.integer("rank", 0, dims.tp - 1)
    choose.event("asked")
    family, ranks = dims.family, dims.tp + slip
    # Rank r's heads are r*heads .. (r+1)*heads - 1; the last rank ends at the model's last head.
    return (
        within((rank + 1) * dims.heads, 1, family.heads + 1)
        & (ranks * dims.heads == family.heads)
        & (ranks * dims.groups == family.groups)
        & (ranks * dims.q_rows == family.heads * 512)
        & (dims.woa_tasks * 32 == dims.o_rows)
        & (dims.heads % dims.groups == 0)
    )


@statement(
    "scratch/offsets fit",
    "With up to 8192 compressed keys, every byte offset of the buffer fits 32 bits.",
    system="scratch",
    needs=Needs(50, {"widest": 1}),
    twin="one page less than the widest buffer takes",
)
def offsets_fit(dims: Dims, choose: Chooser, slip: int = 0) -> Condition:
    plan = choose_plan(dims, choose, WIDEST_TOPK, CHUNKS)
    widest = dims.widened(WIDEST_TOPK) if dims.family.wider_topk else dims
    most = ScratchPlan(widest, dims.family.max_tokens, plan.chunk)
    choose.event("widest", plan.tokens == dims.family.max_tokens)
    choose.lemma(
        "as many chunks at the most",
        within(plan.chunks, 1, most.chunks + 1),
    )
    choose.lemma("as many tasks at the most", plan.tokens * plan.chunks <= most.tokens * most.chunks)
    return (plan.total_bytes <= most.total_bytes - slip * TOTAL_ALIGN_BYTES) & (most.total_bytes <= INT32_MAX)


def never_later(small: ScratchPlan, large: ScratchPlan, choose: Chooser) -> None:
    """Region by region: none of the smaller plan starts later than the larger plan's, nor does it end later."""
    for name in small.layout:
        choose.lemma(f"{name} starts no later", small.layout[name][0] <= large.layout[name][0])
    choose.lemma("the end is no later", layout_end(small.layout) <= layout_end(large.layout))


@statement(
    "scratch/one buffer for every step",
    "A buffer for the most tokens holds every smaller step, from the family's own top-k on.",
    system="scratch",
    needs=Needs(50, {"several tokens": 10}),
    twin="a page to spare",
)
def one_buffer(dims: Dims, choose: Chooser, slip: int = 0) -> Condition:
    # From a narrower top-k on it does not: fewer tokens may take smaller chunks, and so leave more partials.
    tokens = choose.integer("tokens", 1, dims.family.max_tokens, few=4)
    rank = choose_dims(dims, choose, low=dims.family.topk)
    few = cdiv(rank.keys, max(CHUNKS))
    step, most = ScratchPlan(rank, tokens), ScratchPlan(rank, dims.family.max_tokens)
    choose.event("several tokens", tokens >= 2)
    choose.lemma("there are chunks", few >= cdiv(dims.keys, max(CHUNKS)))
    choose.lemma("not more of the larger chunks", tokens * few <= most.tokens * few)
    choose.lemma("the widest step takes the larger chunks", most.chunk == max(CHUNKS))
    choose.lemma(
        "the step takes them too, or has few tasks",
        (tokens * step.chunks == tokens * few) | (tokens * step.chunks <= SMALL_CHUNK_TASKS),
    )
    never_later(step, most, choose)
    return step.total_bytes + slip * TOTAL_ALIGN_BYTES <= most.total_bytes


@statement(
    "scratch/wider top-k",
    "A layer of wider top-k moves no region but those behind the partials, and never needs less.",
    system="scratch",
    needs=Needs(20, {"more chunks": 2}),
    twin="it needs more",
)
def wider_topk(dims: Dims, choose: Chooser, slip: int = 0) -> Condition:
    tokens = choose.integer("tokens", 1, dims.family.max_tokens, few=4)
    chunk = choose.pick("chunk", CHUNKS)
    narrow = ScratchPlan(choose_dims(dims, choose), tokens, chunk)
    more = choose.integer("more", 0, INT32_MAX, few=130) if dims.family.wider_topk else 0
    wide = ScratchPlan(narrow.dims.widened(narrow.dims.topk + more), tokens, chunk)
    choose.event("more chunks", wide.chunks > narrow.chunks)
    choose.lemma("not fewer chunks", narrow.chunks <= wide.chunks)
    choose.lemma("not fewer tasks", tokens * narrow.chunks <= tokens * wide.chunks)
    never_later(narrow, wide, choose)
    unmoved = (wide.layout["part"][0] == narrow.layout["part"][0]) & (wide.back_start == narrow.back_start)
    return unmoved & (wide.total_bytes >= narrow.total_bytes + slip)


@statement(
    "scratch/flags whole",
    "No flag or mailbox pair is torn: each starts at a multiple of 8 bytes and crosses no line of 64.",
    system="scratch",
    needs=Needs(50, {"later element": 10}),
    twin="a multiple of 16",
)
def flags_whole(dims: Dims, choose: Chooser, slip: int = 0) -> Condition:
    plan = choose_plan(dims, choose)
    name = choose.pick("region", FLAGS)
    region, (offset, nbytes) = plan.regions[name], plan.layout[name]
    element = choose.integer("element", 0, region.elements - 1, few=3)
    choose.event("later element", element >= 1)
    choose.lemma("the region starts on a line", offset % 64 == 0)
    start = element * region.element_bytes
    return (
        (region.element_bytes == WORD)
        & (start % (WORD * (1 + slip)) == 0)
        & (start % 64 + WORD <= 64)
        & (start + WORD <= nbytes)
    )


@statement(
    "scratch/launch tags",
    "A launch's tag is never 0, fits an int32, and no launch within 2**31 - 2 of it has the same.",
    system="scratch",
    needs=Needs(50, {"wrapped": 1}),
    twin="within 2**31 - 1",
)
def tags_differ(dims: Dims, choose: Chooser, slip: int = 0) -> Condition:  # noqa: ARG001
    launch = choose.integer("launch", 0, 2**62, few=3)
    later = choose.integer("launches later", 1, TAG_PERIOD - 1 + slip, few=3)
    choose.event("wrapped", launch + later >= TAG_PERIOD)
    one, other = launch_tag(launch), launch_tag(launch + later)
    return within(one, 1, INT32_MAX + 1) & (one != other)
