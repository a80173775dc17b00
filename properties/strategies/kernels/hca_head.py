"""Cases of the HCA head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from kvproof.kernels.prefill_indices.spec import visible_groups
from kvproof.kernels.shapes import HEAD_GROUPS
from kvproof.models.contract import Access, Arguments, contiguous
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.models.row_space import HCA_RATIO
from kvproof.properties.statement import Needs
from kvproof.properties.strategies.batches import STALE
from kvproof.properties.strategies.cases import Case, KernelProperty, register_property
from kvproof.properties.strategies.draws import rarely, seldom_low
from kvproof.properties.strategies.geometry import geometries, geometry_json, real_geometries
from kvproof.properties.strategies.tables import block_tables, group_counts
from kvproof.properties.strategies.tokens import Tokens, cells, slices, stale_tail, tokens, vast


@st.composite
def cases(draw: st.DrawFn, subject: ModelConfig | None) -> Case:
    """A few decode tokens around ends of groups."""
    drawn = draw(geometries(min_slots=1) if subject is None else real_geometries(subject, min_slots=1))
    geometry = draw(vast(drawn))
    wide = draw(st.sampled_from(["int32", "int64"]))
    groups = draw(group_counts(geometry, HEAD_GROUPS))
    batch = draw(tokens(geometry, wide=wide == "int64", behind=groups.behind))
    win = draw(seldom_low(1, geometry.ring_slots)) if draw(rarely()) else max(geometry.ring_slots - 1, 1)
    table, events = draw(block_tables(geometry, len(batch.slots), groups.columns))
    committed = draw(counts(batch))
    count, seed = len(batch.sequence), draw(st.integers(0, 2**16))
    lengths, found = draw(slice_lengths(batch, committed, win, groups.most))
    bounds = draw(slices(lengths))
    size = max(bounds[-1] - draw(seldom_low(0, 2)), 0) if draw(rarely()) else bounds[-1] + draw(seldom_low(0, 2))
    values: dict[str, Any] = {
        "block_tables": table,
        "n_committed_hca_per_seq": contiguous("int32", stale_tail(draw, committed)),
        "batch_id_per_token": contiguous("int32", stale_tail(draw, batch.sequence)),
        "positions": contiguous(wide, stale_tail(draw, batch.positions)),
        "hca_indptr": contiguous("int32", stale_tail(draw, bounds)),
        "hca_indices": draw(cells(size, seed)),
        "T": count,
        "win": win,
        "geometry": geometry,
    }
    written = [n - min(max(p + 1, 0), win) for n, p in zip(lengths, batch.positions, strict=True)]
    if HCA_RATIO in geometry.classes:
        found |= groups.events(count, geometry.block_size // HCA_RATIO, HEAD_GROUPS, max(written, default=0))
    found |= {"vast plane"} if geometry is not drawn else set()
    found |= events | batch.events | {"HCA" if HCA_RATIO in geometry.classes else "absent class"}
    layout = {"geometry": geometry_json(geometry)}
    return Case(values, {"hca_indices": seed}, frozenset(found), layout, groups.shaped_for)


@st.composite
def counts(draw: st.DrawFn, batch: Tokens) -> list[int]:
    """Committed groups of each sequence: those of its last token, sometimes any number."""
    found: list[int] = []
    for sequence in range(len(batch.slots)):
        last = max((p for p, s in zip(batch.positions, batch.sequence, strict=True) if s == sequence), default=0)
        exact = min((last + 1) // HCA_RATIO, 2**31 - 1)
        found.append(draw(st.one_of(st.integers(0, 3), STALE)) if draw(rarely()) else exact)
    return found


@st.composite
def slice_lengths(
    draw: st.DrawFn, batch: Tokens, committed: list[int], win: int, most: int
) -> tuple[list[int], set[str]]:
    """Lengths of slices: window and groups, sometimes one too short."""
    lengths: list[int] = []
    events: set[str] = set()
    for t, pos in enumerate(batch.positions):
        if not batch.live(t):
            lengths.append(0)
            continue
        window = min(max(pos + 1, 0), win)
        groups = min(int(visible_groups(pos, committed[batch.sequence[t]])), most)
        length = window + groups
        if length and draw(rarely()):
            length = draw(st.integers(max(length - 3, 0), length - 1))
            events.add("short slice")
        elif draw(rarely()):
            # Room for a group that the token must not see.
            length += draw(st.integers(1, 2))
            events.add("long slice")
        lengths.append(length)
        events |= {"groups"} if groups else set()
        events |= {"open group"} if groups and (pos + 1) % HCA_RATIO else set()
    return lengths, events


def explain(a: Arguments, _access: Access, at: Mapping[str, int]) -> str:
    """Which group of which token a cell is for."""
    t = at["t"]
    who = f"token {t} (sequence {int(a.batch_id_per_token[t])}, position {int(a.positions[t])})"
    return f"group {at['k']} of {who}"


register_property(
    KernelProperty(
        kernel="hca_head",
        words="each complete group of a token is its row in its block, and -1 where there is none",
        cases=cases,
        needs=Needs(
            cases=100,
            events={
                "several sequences": 20,
                "padded token": 20,
                "groups": 15,
                "several programs a token": 1,
                "several passes a program": 1,
                "open group": 10,
                "short slice": 10,
                "long slice": 10,
                "vast plane": 10,
                "descending blocks": 10,
                "strided table": 10,
            },
        ),
        explain=explain,
    )
)
