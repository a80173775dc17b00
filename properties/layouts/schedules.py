"""Rings over time: what a step may read is still there, whatever earlier steps wrote and had rejected.

A verify step feeds a token and k drafts: positions ``start`` to ``start + k``. Their window rows are written
before attention reads; the compressor reads its state before the step's own rows are written. A step accepts
at least its first token and at most all; the next one starts behind what was accepted, so rows that were
written for rejected positions lie up to ``k - 1`` behind its start.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvproof.models.index import INT64_MAX, Condition, IndexValue, negate
from kvproof.models.row_space import CSA_RATIO, HCA_RATIO, WindowParams
from kvproof.properties.layouts.pools import Pool
from kvproof.properties.statement import Chooser, Needs, statement


def one_ring(ring: int) -> WindowParams:
    """A ring by itself: one run, nothing interleaved."""
    return WindowParams(ring_start=0, slot_rows=ring, ring_slots=ring, ring_stride=ring, run_rows=ring)


def window_survives(choose: Chooser, window: int, drafts: int, ring: int) -> Condition:
    """Every window row that a query of a verify step reads is the one written last for its position."""
    row = one_ring(ring)
    start = choose.integer("start", 0, INT64_MAX, few=2 * (window + drafts))
    query = start + choose.integer("query", 0, drafts)
    read = query - choose.integer("back", 0, window - 1)
    choose.assume(read >= 0)
    later = choose.integer("later write", read + 1, start + drafts)
    return negate(row.index(0, read) == row.index(0, later))


def state_survives(choose: Chooser, ratio: int, pooled: int, drafts: int, ring: int) -> Condition:
    """Every state row that a compression reads is the one written last for its position.

    Args:
        choose: the chooser.
        ratio: compress ratio.
        pooled: positions that an entry pools (K).
        drafts: draft tokens a step (k).
        ring: ring positions of the state.
    """
    row = one_ring(ring)
    start = choose.integer("start", 0, INT64_MAX, few=2 * ring)
    compressed = choose.integer("compressed position", start, start + pooled)
    choose.assume((compressed + 1) % ratio == 0)
    read = choose.integer("read", 0, start - 1)
    choose.assume(read >= compressed - pooled + 1)
    rejected = choose.integer("earlier write", read + 1, start - 1 + drafts)
    return negate(row.index(0, read) == row.index(0, rejected))


def state_writes_apart(choose: Chooser, pooled: int, ring: int) -> Condition:
    """One step writes no cell of the state twice: its write plan keeps the last K positions of the context."""
    row = one_ring(ring)
    context = choose.integer("context", 1, INT64_MAX, few=2 * ring)
    first = choose.integer("write a", 0, context - 1)
    choose.assume(first >= context - pooled)
    second = choose.integer("write b", first + 1, context - 1)
    return negate(row.index(0, first) == row.index(0, second))


@dataclass(frozen=True)
class StateRing:
    """A compressor's state ring.

    Attributes:
        field: name of its state field.
        ratio: compress ratio.
        pooled: positions that an entry pools (K): twice the ratio for CSA, whose entries overlap.
        ring: its ring positions.
    """

    field: str
    ratio: int
    pooled: int
    ring: int


def state_rings(pool: Pool) -> tuple[StateRing, ...]:
    """The state rings of a pool, one a pair of kv and score fields."""
    rings: list[StateRing] = []
    for item in pool.state.placed:
        name = item.field.name
        if name.endswith("_kv"):
            ratio, pooled = (CSA_RATIO, 2 * CSA_RATIO) if name.startswith("csa") else (HCA_RATIO, HCA_RATIO)
            rings.append(StateRing(name.removesuffix("_kv"), ratio, pooled, item.field.shape[1]))
    return tuple(rings)


@statement(
    "window ring under verify",
    "The window ring holds every row that any query of a verify step reads, drafts written and rejected included.",
    system="pool",
    needs=Needs(50),
    twin="the ring is one position shorter",
)
def window_ring(pool: Pool, choose: Chooser, slip: int = 0) -> Condition:
    config = pool.config
    return window_survives(choose, config.sliding_window, config.draft_tokens, pool.space.ring_slots - slip)


@statement(
    "state ring under verify",
    "A compressor's state ring holds every row that a compression reads, and one step writes no cell of it twice.",
    system="pool",
    needs=Needs(30),
    twin="the ring is one position shorter than K + k - 1 for what is read, than K for what is written",
)
def state_ring(pool: Pool, choose: Chooser, slip: int = 0) -> Condition:
    rings = {ring.field: ring for ring in state_rings(pool)}
    ring, drafts = rings[choose.pick("state", tuple(rings))], pool.config.draft_tokens
    if choose.pick("what", ("read", "written")) == "read":
        shorter = ring.pooled + drafts - 2 if slip else ring.ring
        return state_survives(choose, ring.ratio, ring.pooled, drafts, shorter)
    return state_writes_apart(choose, ring.pooled, ring.pooled - 1 if slip else ring.ring)


def plan_keeps_enough(choose: Chooser, pooled: int, drafts: IndexValue) -> Condition:
    """After any partial accept, every state row that the next compression reads was written or is older.

    The write plan of a step keeps the last K positions of its context, drafts included.
    """
    start = choose.integer("start", 0, INT64_MAX)
    following = start + choose.integer("accepted", 1, drafts + 1)
    read = choose.integer("read", start, following - 1)
    choose.assume(read >= following - pooled + 1)
    return read >= start + drafts + 1 - pooled
