"""Cases of the compressor state update."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from kvproof.kernels.state_update.spec import pooled
from kvproof.models.contract import Access, Arguments, TensorValue, contiguous
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.models.index import INT32_MAX
from kvproof.models.row_space import CSA_RATIO, HCA_RATIO
from kvproof.properties.statement import Needs
from kvproof.properties.strategies.batches import STALE
from kvproof.properties.strategies.buffers import RowType, poisoned_rows
from kvproof.properties.strategies.cases import Case, KernelProperty, poison, register_property
from kvproof.properties.strategies.draws import now_and_then, rarely, seldom_low
from kvproof.properties.strategies.tokens import taken

PROGRAM = 1024
"""Columns of a program; a longer row has several programs."""

FLOATS = ("fp32", "bf16", "fp16")


@st.composite
def states(draw: st.DrawFn, slots: int, ring: int, dim: int, seed: int) -> TensorValue:
    """The state rings of some slots, which lie some elements apart in a longer poisoned storage."""
    stride = ring * dim + draw(seldom_low(0, 9))
    guard = draw(seldom_low(0, 5))
    return TensorValue(
        "fp32", poison(seed, "fp32", slots * stride + 2 * guard), (slots, ring, dim), (stride, dim, 1), guard
    )


@st.composite
def plans(draw: st.DrawFn, rows: int, slots: list[int], ring: int) -> tuple[list[list[int]], set[str]]:
    """Plan rows of a few sequences, consecutive positions each, padding and stale rows among them."""
    plan: list[list[int]] = []
    events: set[str] = set()
    ragged = 0
    for sequence in range(len(slots)):
        count = min(draw(seldom_low(0, 3)), ring, rows - ragged)
        first = draw(st.one_of(st.integers(0, 3 * ring), st.integers(0, 3).map(lambda n: INT32_MAX - 9 + n)))
        events |= {"second lap"} if count and first >= ring else set()
        for n in range(count):
            plan.append([ragged, sequence, first + n, draw(st.integers(0, 9))])
            ragged += 1
    events |= {"several rows"} if len(plan) > 1 else set()
    for _ in range(draw(seldom_low(0, 2))):
        kind = draw(st.sampled_from(["padding row", "stale row"]))
        if kind == "padding row":
            extra = [draw(STALE), draw(STALE), -1 - draw(st.integers(0, 2**31 - 1)), -1]
        else:
            extra = [0, 0, draw(st.integers(0, INT32_MAX)), 0]
            column, limit = draw(st.sampled_from([(0, rows), (1, len(slots))]))
            extra[column] = draw(st.one_of(st.integers(limit, INT32_MAX), st.integers(-(2**31), -1)))
            # What the other column names is no matter, except that no live row may have the same place.
            extra[2] = extra[2] if all(_place(row, ring) != _place(extra, ring) for row in plan) else -1
        events.add(kind)
        plan.insert(draw(st.sampled_from([len(plan), *range(len(plan))])), extra)
    return plan, events


def _place(row: list[int], ring: int) -> int:
    return row[2] % ring


@st.composite
def cases(draw: st.DrawFn, _subject: ModelConfig | None) -> Case:
    """A plan over a few short rows. A configuration changes nothing: states are views of their own."""
    ratio, overlap = draw(
        st.sampled_from([(1, False), (CSA_RATIO, True), (3, False), (2, True), (HCA_RATIO, False)])
    )
    ring = pooled(ratio, overlap) + draw(seldom_low(0, 3))
    dim, rows, count = draw(seldom_low(1, 6)), draw(seldom_low(1, 8)), draw(seldom_low(1, 3))
    held = draw(seldom_low(1, 4))
    # Rings of so long rows, and terms of a whole group, are short or the case would be large.
    dim += PROGRAM if ratio <= CSA_RATIO and draw(now_and_then()) else 0
    events: set[str] = set()
    slots = taken(draw, range(held), count)
    while len(slots) < count:
        slots.append(draw(st.one_of(st.just(-1), st.integers(held, INT32_MAX), st.integers(-(2**31), -1))))
    if len(set(slots)) < len(slots):
        slots = [slot if slots.index(slot) == at else held + at for at, slot in enumerate(slots)]
    plan, found = draw(plans(rows, slots, ring))
    events |= found
    used = {row[1] for row in plan if 0 <= row[0] < rows and 0 <= row[1] < count and row[2] >= 0}
    events |= {"stale slot"} if any(not 0 <= slots[sequence] < held for sequence in used) else set()
    events |= {"several programs a row"} if dim > PROGRAM and used else set()
    events |= {"slots in no order"} if slots != sorted(slots) else set()
    events |= {"overlap" if overlap else "no overlap"}
    seed = draw(st.integers(0, 2**16))
    seeds = {name: 8 * seed + n for n, name in enumerate(("kv", "score", "ape", "kv_state", "score_state"))}
    kinds = {name: RowType(draw(st.sampled_from(FLOATS)), dim) for name in ("kv", "score")}
    values: dict[str, Any] = {
        "kv": draw(poisoned_rows(kinds["kv"], rows, seeds["kv"])),
        "score": draw(poisoned_rows(kinds["score"], rows, seeds["score"])),
        "ape": contiguous("fp32", poison(seeds["ape"], "fp32", ratio * dim), (ratio, dim)),
        "kv_state": draw(states(held, ring, dim, seeds["kv_state"])),
        "score_state": draw(states(held, ring, dim, seeds["score_state"])),
        "write_plan": contiguous("int32", plan, (len(plan), 4)),
        "state_slot_mapping": contiguous("int32", slots),
        "ratio": ratio,
        "overlap": overlap,
    }
    if draw(rarely()):
        values["ape"] = contiguous("bf16", poison(seeds["ape"], "bf16", ratio * dim), (ratio, dim))
    return Case(values, seeds, frozenset(events))


def explain(a: Arguments, _access: Access, at: Mapping[str, int]) -> str:
    """What a plan row says."""
    ragged, sequence, pos = (int(a.write_plan[at["i"], column]) for column in range(3))
    return f"plan row {at['i']} (row {ragged}, sequence {sequence}, position {pos}, ring of {a.ring})"


register_property(
    KernelProperty(
        kernel="state_update",
        words="each planned row is in its slot's ring with its score term, and nothing else of any tensor changed",
        cases=cases,
        needs=Needs(
            cases=100,
            events={
                "several rows": 20,
                "second lap": 20,
                "padding row": 10,
                "stale row": 10,
                "stale slot": 5,
                "slots in no order": 10,
                "several programs a row": 4,
                "overlap": 10,
                "no overlap": 10,
            },
        ),
        explain=explain,
    )
)
