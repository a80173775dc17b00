"""Cases of fused compression."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from kvproof.kernels.compress_plans.spec import compress_rows
from kvproof.kernels.state_update.spec import pooled
from kvproof.models.contract import Access, Arguments, TensorValue, contiguous
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.models.index import INT32_MAX
from kvproof.models.packed_row import FORMATS, PACKED_BYTES, ROPE, WIDTH
from kvproof.models.row_space import CSA_RATIO, HCA_RATIO
from kvproof.properties.statement import Needs
from kvproof.properties.strategies.attention import to_bits
from kvproof.properties.strategies.cases import Case, KernelProperty, register_property
from kvproof.properties.strategies.draws import distinct_from, rarely, seldom_low
from kvproof.properties.strategies.floats import filled, guarded, numbers

SHAPES = [*[(CSA_RATIO, True), (2, True), (4, False), (1, False), (16, False)] * 2, (HCA_RATIO, False)]
"""Ratios and overlap of a class: both real ones, and others that take one tile of positions or two. HCA takes 16,
and rings of a quarter of a megabyte, so it is drawn less often."""

FAR = 2**20
"""Positions from here on have no block column and no angle."""


@dataclass(frozen=True)
class Forward:
    """A few sequences with new tokens, some of which complete groups.

    Attributes:
        plan: plan rows.
        slots: physical slot of each sequence.
        tokens: rows of kv.
        ratio, overlap: of the class.
        ring, held: positions of a ring, slots that there are.
        events: what it shows.
    """

    plan: list[list[int]]
    slots: list[int]
    tokens: int
    ratio: int
    overlap: bool
    ring: int
    held: int
    events: frozenset[str]

    @property
    def width(self) -> int:
        """Positions of an entry."""
        return pooled(self.ratio, self.overlap)

    def live(self) -> list[list[int]]:
        """Plan rows that name a row, a sequence, a slot and a position that are there."""
        return [
            row
            for row in self.plan
            if 0 <= row[2] < FAR
            and 0 <= row[0] < self.tokens
            and 0 <= row[1] < len(self.slots)
            and 0 <= self.slots[row[1]] < self.held
        ]

    def last(self) -> int:
        """Largest position of a live plan row."""
        return max((row[2] for row in self.live()), default=0)


@st.composite
def forwards(draw: st.DrawFn) -> Forward:
    """One or two sequences, whole groups in the input, in the ring, or astride. Shrinks to one short one."""
    ratio, overlap = draw(st.sampled_from(SHAPES))
    width = pooled(ratio, overlap)
    ring, held = width + draw(seldom_low(0, 3)), draw(seldom_low(1, 2))
    count = draw(seldom_low(1, 2))
    # Of a wide entry one whole one is enough.
    lengths = [1, 2, ratio, width, width + 1, *([] if ratio == HCA_RATIO else [2 * width])]
    extend = [draw(st.sampled_from(lengths)) for _ in range(count)]
    # The first ends right before the end of a group: one token completes it, and its positions are in the ring.
    places = [st.integers(0, 3).map(lambda m: (m + 1) * ratio - 1), st.integers(0, 2 * width), st.just(ratio)]
    before = [draw(st.one_of(places)) for _ in range(count)]
    plan = [
        list(row)
        for row in compress_rows(extend, [e + b for e, b in zip(extend, before, strict=True)], ratio, overlap)
    ][:4]
    tokens = sum(extend)
    slots = draw(distinct_from(range(held), count))
    stale = draw(st.sampled_from([False, False, True]))
    while len(slots) < count or (stale and not any(slot < 0 or slot >= held for slot in slots)):
        slots = [*slots[: count - 1], draw(st.sampled_from([-1, held, INT32_MAX]))]
    events = {"overlap" if overlap else "no overlap"} | ({"HCA"} if ratio == HCA_RATIO else set[str]())
    for _ in range(draw(seldom_low(0, 2))):
        kind = draw(st.sampled_from(["padding row", "stale row"]))
        extra = [tokens - 1, 0, ratio - 1, 0]
        if kind == "padding row":
            extra = [draw(st.integers(-1, INT32_MAX)), -1, -1 - draw(st.integers(0, 2**31 - 1)), -1]
        else:
            column, bad = draw(
                st.sampled_from(
                    [(0, tokens), (0, -1), (1, count), (1, -1), (3, width), (3, -1), (2, FAR - 1 + ratio)]
                    # It reads one row more than there are before its own.
                    + [(3, width - 1 - tokens)] * (tokens < width)
                )
            )
            extra[column] = bad
            extra[2] = 3 * width - 1 if (column, bad) == (3, width - 1 - tokens) else extra[2]
        events.add(kind)
        plan.insert(draw(st.sampled_from([len(plan), *range(len(plan))])), extra)
    found = Forward(plan, slots, tokens, ratio, overlap, ring, held, frozenset(events))
    rows = found.live()
    more = {
        "several entries": len(rows) > 1,
        "from the ring": any(row[3] > 0 and row[2] >= width for row in rows),
        "from the input": any(row[3] == 0 for row in rows),
        "before the first position": any(row[2] < width - 1 for row in rows),
        "stale slot": any(not 0 <= slot < held for slot in slots),
    }
    return Forward(
        plan, slots, tokens, ratio, overlap, ring, held,
        frozenset(events | {name for name, happened in more.items() if happened}),
    )  # fmt: skip


def read_cells(forward: Forward) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Which elements of this forward's rows [tokens, dim] and of the rings [held, ring, dim] an entry pools."""
    dim = WIDTH * (2 if forward.overlap else 1)
    new = np.zeros((forward.tokens, dim), bool)
    old = np.zeros((forward.held, forward.ring, dim), bool)
    for ragged, sequence, pos, window in forward.live():
        for k in range(forward.width):
            at = pos - (forward.width - 1) + k
            row = ragged - (forward.width - 1) + k
            half = slice(WIDTH, 2 * WIDTH) if k >= forward.ratio else slice(0, WIDTH)
            if at >= 0 and k >= window and row >= 0:
                new[row, half] = True
            elif at >= 0 and k < window:
                old[forward.slots[sequence], at % forward.ring, half] = True
    return new, old


@st.composite
def pooled_tensors(draw: st.DrawFn, forward: Forward, seed: int) -> dict[str, TensorValue]:
    """kv, score and their rings: ordinary numbers where an entry pools them, poison elsewhere."""
    new, old = read_cells(forward)
    loud = 2.0 ** draw(seldom_low(0, 3))
    found: dict[str, TensorValue] = {}
    for at, (name, mask) in enumerate((("kv", new), ("score", new), ("kv_state", old), ("score_state", old))):
        kind = draw(st.sampled_from(["fp32", "bf16"])) if mask is new else "fp32"
        ordinary = (numbers(seed + at, mask.size) * loud).reshape(mask.shape)
        buffer = draw(guarded(kind, mask.shape, seed + at))
        cells = to_bits(ordinary) if kind == "bf16" else ordinary.astype(np.float32)
        found[name] = filled(buffer, np.where(mask, cells, buffer.array))
    if old.any() and draw(rarely()):
        # A ring position that no one has written since the slot was reset: kv 0, score -inf.
        slot, place = (int(x[0]) for x in np.nonzero(old.any(axis=2)))
        found["kv_state"].array[slot, place] = 0.0
        found["score_state"].array[slot, place] = -np.inf
    return found


@st.composite
def cases(draw: st.DrawFn, subject: ModelConfig | None) -> Case:
    """A few entries into a small pool, bf16 or packed as the configuration says, or either."""
    forward = draw(forwards())
    seed = draw(st.integers(0, 2**16)) * 16
    packed = draw(st.booleans()) if subject is None else subject.kv == "fp8"
    variant = draw(st.sampled_from(sorted(FORMATS, reverse=True)))
    dim = WIDTH * (2 if forward.overlap else 1)
    block_rows = draw(seldom_low(1, 3))
    envelope = block_rows + draw(seldom_low(0, 2))
    last = forward.last() // forward.ratio
    # The last entry's column, and its angle, may be the first that is not there.
    columns = max(last // block_rows + (0 if draw(rarely()) else 1), 1)
    blocks = columns * len(forward.slots) + draw(seldom_low(0, 2))
    table = draw(distinct_from(range(blocks), columns * len(forward.slots)))
    events = set(forward.events) | (
        {"past the table"} if forward.live() and last // block_rows == columns else set()
    )
    if draw(st.sampled_from([False, True])):
        table[draw(st.integers(0, len(table) - 1))] = draw(st.sampled_from([-1, blocks, INT32_MAX]))
        events.add("no block")
    rows = blocks * envelope + draw(seldom_low(0, 3))
    angles = max(last * forward.ratio, 1) if draw(rarely()) else forward.last() + 1
    events |= {"no angle"} if forward.live() and last * forward.ratio == angles else set()
    firsts = np.zeros(angles, bool)
    begins = [row[2] // forward.ratio * forward.ratio for row in forward.live()]
    firsts[[begin for begin in begins if begin < angles]] = True
    turns = numbers(seed + 5, angles * ROPE // 2).reshape(angles, ROPE // 2) * np.pi
    cos, sin = (
        filled(b, np.where(firsts[:, None], to_bits(turn(turns)), b.array))
        for b, turn in (
            (draw(guarded("bf16", turns.shape, seed + at, free_stride=False)), t)
            for at, t in ((6, np.cos), (7, np.sin))
        )
    )
    values: dict[str, Any] = {
        **draw(pooled_tensors(forward, seed)),
        "ape": contiguous("fp32", numbers(seed + 8, forward.ratio * dim), (forward.ratio, dim)),
        "compress_plan": contiguous("int32", forward.plan, (len(forward.plan), 4)),
        "state_slot_mapping": contiguous("int32", forward.slots),
        "rms_weight": contiguous("fp32", numbers(seed + 9, WIDTH) + 1.5),
        "cos": cos,
        "sin": sin,
        "block_tables": contiguous("int32", table, (len(forward.slots), columns)),
        "pool": draw(guarded("uint8" if packed else "bf16", (rows, PACKED_BYTES if packed else WIDTH), seed + 10)),
        "pool_rope": draw(guarded("bf16", (rows, ROPE), seed + 11)) if packed else None,
        "envelope_rows": envelope,
        "block_rows": block_rows,
        "blocks": blocks,
        "ratio": forward.ratio,
        "overlap": forward.overlap,
        "rms_eps": 1e-6,
        "variant": variant,
    }
    seeds = {"pool": seed + 10} | ({"pool_rope": seed + 11} if packed else {})
    return Case(values, seeds, frozenset(events | {"packed" if packed else "one plane"}))


def explain(a: Arguments, _access: Access, at: Mapping[str, int]) -> str:
    """Which entry, and how many of its positions come from the ring."""
    ragged, sequence, pos, window = (int(a.compress_plan[at["i"], column]) for column in range(4))
    return (
        f"entry {pos // a.ratio} of sequence {sequence} (plan row {at['i']}: position {pos}, row {ragged}, "
        f"{window} of {pooled(a.ratio, a.overlap)} positions from the ring)"
    )


register_property(
    KernelProperty(
        kernel="fused_compress",
        words="each entry is within its bound of float64 compression, well packed; nothing else changed",
        cases=cases,
        needs=Needs(
            cases=60,
            events={
                "packed": 8,
                "one plane": 8,
                "overlap": 8,
                "no overlap": 6,
                "HCA": 4,
                "several entries": 8,
                "from the ring": 8,
                "from the input": 5,
                "before the first position": 3,
                "padding row": 5,
                "stale row": 5,
                "stale slot": 2,
                "no block": 2,
                "past the table": 2,
                "no angle": 2,
            },
        ),
        explain=explain,
    )
)
