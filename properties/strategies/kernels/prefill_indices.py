"""Cases of the prefill index build."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from kvproof.kernels.decode_indices.contract import CLASSES
from kvproof.kernels.prefill_indices.contract import BUFFERS
from kvproof.kernels.prefill_indices.spec import extend_low, prefix_count, visible_groups
from kvproof.kernels.shapes import PREFILL_GROUPS
from kvproof.models.contract import Access, Arguments, contiguous
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.models.row_space import CLASS_NAMES, CSA_RATIO, DENSE_RATIO, HCA_RATIO, UnifiedPoolGeometry
from kvproof.properties.statement import Needs
from kvproof.properties.strategies.batches import STALE
from kvproof.properties.strategies.cases import Case, KernelProperty, register_property
from kvproof.properties.strategies.draws import mostly, rarely, seldom_low
from kvproof.properties.strategies.geometry import geometries, geometry_json, real_geometries
from kvproof.properties.strategies.tables import FEW_GROUPS, block_tables, group_counts
from kvproof.properties.strategies.tokens import Tokens, cells, slices, stale_tail, tokens, vast

RATIO_OF = {f"prefix_{name}": ratio for ratio, name in CLASSES.items()}


@dataclass(frozen=True)
class Chunks:
    """What a prefill forward knows of each sequence.

    Attributes:
        start: first position of its chunk.
        row: its first row in the forward's kv.
        committed: HCA groups after the forward.
    """

    start: list[int]
    row: list[int]
    committed: list[int]
    events: frozenset[str]


@st.composite
def cases(draw: st.DrawFn, subject: ModelConfig | None) -> Case:
    """A forward of a few short chunks, with all classes of a small plane, or fewer."""
    drawn = draw(geometries(min_slots=1) if subject is None else real_geometries(subject, min_slots=1))
    geometry = draw(vast(drawn))
    wide = draw(st.sampled_from(["int32", "int64"]))
    per_block = max(geometry.block_size // HCA_RATIO, 1)
    groups = draw(group_counts(geometry, PREFILL_GROUPS))
    batch = draw(tokens(geometry, wide=wide == "int64", most_queries=6, behind=groups.behind))
    win = draw(seldom_low(1, geometry.ring_slots)) if draw(rarely()) else max(geometry.ring_slots - 1, 1)
    chunks = draw(forward_chunks(batch))
    table, table_events = draw(block_tables(geometry, len(batch.slots), groups.columns))
    count, seed = len(batch.sequence), draw(st.integers(0, 2**16))
    values: dict[str, Any] = {
        "positions": contiguous(wide, stale_tail(draw, batch.positions)),
        "bid_per_token": contiguous("int32", stale_tail(draw, batch.sequence)),
        "chunk_start_per_seq": contiguous("int32", chunks.start),
        "cu_seqlens_q_per_seq": contiguous("int32", stale_tail(draw, chunks.row)),
        "state_slot_per_seq": contiguous("int32", stale_tail(draw, batch.slots)),
        "n_committed_hca_per_seq": contiguous("int32", stale_tail(draw, chunks.committed)),
        "block_tables": table,
        "T": count,
        "win": win,
        "geometry": geometry,
        "hca_ratio": HCA_RATIO,
        "hca_rows_per_block": per_block,
    }
    seeds: dict[str, int] = {}
    events = set(batch.events | chunks.events | table_events) | (
        {"vast plane"} if geometry is not drawn else set()
    )
    for number, name in enumerate(BUFFERS):
        bounds, buffer, found = draw(buffers(geometry, name, batch, chunks, win, groups.most, 4 * seed + number))
        values[f"{name}_indptr"], values[f"{name}_indices"] = bounds, buffer
        events |= found
        seeds |= {} if buffer is None else {f"{name}_indices": 4 * seed + number}
    if values["prefix_hca_indptr"] is not None and HCA_RATIO in geometry.classes:
        cells_of = (needed("prefix_hca", batch, chunks, t, win, groups.most) for t in range(count))
        windows = (needed("prefix_swa", batch, chunks, t, win, groups.most) for t in range(count))
        written = max((n - w for n, w in zip(cells_of, windows, strict=True)), default=0)
        events |= groups.events(count, per_block, PREFILL_GROUPS, written)
    layout = {"geometry": geometry_json(geometry)}
    return Case(values, seeds, frozenset(events), layout, groups.shaped_for)


@st.composite
def forward_chunks(draw: st.DrawFn, batch: Tokens) -> Chunks:
    """Chunks that start at their sequence's first token; sometimes stale ones."""
    starts: list[int] = []
    rows: list[int] = []
    committed: list[int] = []
    events: set[str] = set()
    for sequence in range(len(batch.slots)):
        mine = [t for t, s in enumerate(batch.sequence) if s == sequence]
        first = batch.positions[mine[0]] if mine else 0
        start, row = first, mine[0] if mine else 0
        if draw(rarely()):
            start = draw(st.one_of(st.integers(first - 3, first + 9), STALE))
            events |= {"stale chunk"} if mine else set()
        if draw(rarely()) and draw(rarely()):
            row = draw(STALE)
            events |= {"stale first row"} if mine else set()
        start = min(max(start, -(2**31)), 2**31 - 1)
        seen = (first + len(mine)) // HCA_RATIO
        groups = draw(st.one_of(st.integers(0, 3), STALE)) if draw(rarely()) else seen
        events |= {"groups"} if mine and seen > 0 and start <= first else set()
        starts.append(start)
        rows.append(row)
        committed.append(min(max(groups, -(2**31)), 2**31 - 1))
        events |= {"earlier chunk"} if mine and 0 < start <= first else set()
        events |= {"whole prompt"} if mine and first == start == 0 else set()
    return Chunks(starts, rows, committed, frozenset(events))


@st.composite
def buffers(
    draw: st.DrawFn,
    geometry: UnifiedPoolGeometry,
    name: str,
    batch: Tokens,
    chunks: Chunks,
    win: int,
    most: int,
    seed: int,
) -> tuple[Any, Any, set[str]]:
    """Slice bounds and indices of one buffer, or None and None; and the events they show."""
    ratio = RATIO_OF.get(name)
    served = ratio is None or ratio in geometry.classes
    many = ratio == HCA_RATIO and most > FEW_GROUPS
    if ratio is not None and not draw(mostly()) and not many:
        return None, None, {"class switched off"} if served else set()
    lengths = [needed(name, batch, chunks, t, win, most) for t in range(len(batch.sequence))]
    if ratio == CSA_RATIO:
        lengths = [n + draw(seldom_low(0, 3)) if batch.live(t) else n for t, n in enumerate(lengths)]
    events = set() if ratio is None or not served else {CLASS_NAMES[ratio]}
    long = [t for t, n in enumerate(lengths) if n]
    if long and draw(rarely()):
        at = draw(st.sampled_from(long))
        lengths[at] = draw(st.integers(0, lengths[at] - 1))
        events |= {"short slice"} if served else set()
    elif lengths and draw(rarely()):
        # Room for a group, or a position, that the token must not see.
        lengths[draw(st.sampled_from(range(len(lengths))))] += draw(st.integers(1, 2))
        events |= {"long slice"} if served else set()
    bounds = draw(slices(lengths))
    size = max(bounds[-1] - draw(seldom_low(0, 2)), 0) if draw(rarely()) else bounds[-1] + draw(seldom_low(0, 2))
    return contiguous("int32", stale_tail(draw, bounds)), draw(cells(size, seed)), events


def needed(name: str, batch: Tokens, chunks: Chunks, t: int, win: int, most: int) -> int:
    """Cells that token ``t`` needs in a buffer, with room for ``most`` groups."""
    if not batch.live(t):
        return 0
    pos, sequence = batch.positions[t], batch.sequence[t]
    start = chunks.start[sequence]
    if name == "extend":
        return max(pos - extend_low(pos, start, win) + 1, 0)
    window = prefix_count(pos, start, win)
    if RATIO_OF[name] in {DENSE_RATIO, CSA_RATIO}:
        return window
    return window + min(visible_groups(pos, chunks.committed[sequence]), most)


def explain(a: Arguments, access: Access, at: Mapping[str, int]) -> str:
    """Which token a cell is for, and which of its cells it is."""
    t = at["t"]
    who = f"token {t} (sequence {int(a.bid_per_token[t])}, position {int(a.positions[t])})"
    if "k" in at:
        return f"group {at['k']} of {who}"
    part = "in-chunk position" if access.buffer == "extend_indices" else "earlier position"
    return f"{part} {at['i']} of {who}"


register_property(
    KernelProperty(
        kernel="prefill_indices",
        words="each live token's in-chunk rows, earlier window rows and complete groups are in their places",
        cases=cases,
        needs=Needs(
            cases=100,
            events={
                "several sequences": 20,
                "several queries": 20,
                "earlier chunk": 20,
                "groups": 10,
                "several programs a token": 1,
                "several passes a program": 1,
                "padded token": 20,
                "stale slot": 10,
                "stale chunk": 10,
                "short slice": 10,
                "long slice": 10,
                "vast plane": 10,
                "class switched off": 10,
                "descending blocks": 10,
            },
        ),
        explain=explain,
    )
)
