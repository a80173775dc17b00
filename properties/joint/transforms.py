"""Schedules that must read the same: other blocks, slots, boundary, batch order, padding or chunks."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from kvproof.models.row_space import UnifiedPoolGeometry
from kvproof.properties.joint.schedule import Forward, Part, Schedule
from kvproof.properties.strategies.draws import seldom_low
from kvproof.properties.strategies.tokens import taken


@dataclass(frozen=True)
class Variant:
    """A schedule that must read as another does, and what was changed."""

    schedule: Schedule
    changes: frozenset[str]


def _blocks_moved(draw: st.DrawFn, schedule: Schedule) -> Schedule:
    used = [block for request in schedule.requests for block in request.blocks]
    places = iter(taken(draw, range(schedule.geometry.num_blocks), len(used)))
    if len(used) > schedule.geometry.num_blocks:
        return schedule  # no compressed rows: the blocks are of no pool
    moved = [replace(r, blocks=tuple(itertools.islice(places, len(r.blocks)))) for r in schedule.requests]
    return replace(schedule, requests=tuple(moved))


def _slots_moved(draw: st.DrawFn, schedule: Schedule) -> Schedule:
    groups = range(schedule.geometry.num_slots)
    place = taken(draw, groups, len(groups))
    return replace(schedule, requests=tuple(replace(r, group=place[r.group]) for r in schedule.requests))


def _boundary_moved(draw: st.DrawFn, schedule: Schedule) -> Schedule:
    """Blocks give way to slots or the other way round, the plane as it is. Refused moves change nothing."""
    old = schedule.geometry
    used = max((b for r in schedule.requests for b in r.blocks), default=-1) + 1
    held = (old.plane_rows or 0) // old.slot_rows
    slots = draw(seldom_low(1 + max(r.group for r in schedule.requests), max(held, 1)))
    room = (held - slots) * old.slot_rows
    blocks = room // old.envelope_rows if old.envelope_rows else 0
    try:
        moved = old.with_capacity(blocks, slots, old.plane_rows)
    except ValueError:
        return schedule
    fits = blocks >= used or not old.envelope_rows
    return replace(schedule, geometry=moved) if fits else schedule


def _batch_reordered(draw: st.DrawFn, schedule: Schedule) -> Schedule:
    forwards = [replace(f, parts=tuple(draw(st.permutations(f.parts)))) for f in schedule.forwards]
    return replace(schedule, forwards=tuple(forwards))


def _padded(draw: st.DrawFn, schedule: Schedule) -> Schedule:
    forwards = [replace(f, padding=f.padding + draw(seldom_low(0, 2))) for f in schedule.forwards]
    return replace(schedule, forwards=tuple(forwards))


def _chunk_split(draw: st.DrawFn, schedule: Schedule) -> Schedule:
    """One prefill forward as two: the first does a part of each chunk."""
    long = [n for n, f in enumerate(schedule.forwards) if f.kind == "prefill" and any(p.new > 1 for p in f.parts)]
    if not long:
        return schedule
    at = draw(st.sampled_from(long))
    forward = schedule.forwards[at]
    cuts = [draw(st.integers(0 if p.new == 1 else 1, p.new - 1)) for p in forward.parts]
    first = [Part(p.request, cut, cut) for p, cut in zip(forward.parts, cuts, strict=True) if cut]
    rest = [Part(p.request, p.new - cut, p.kept - cut) for p, cut in zip(forward.parts, cuts, strict=True)]
    halves = (Forward("prefill", tuple(first), forward.padding), Forward("prefill", tuple(rest), forward.padding))
    return replace(schedule, forwards=(*schedule.forwards[:at], *halves, *schedule.forwards[at + 1 :]))


Transform = Callable[[Any, Schedule], Schedule]
TRANSFORMS: dict[str, Transform] = {
    "blocks moved": _blocks_moved,
    "slots moved": _slots_moved,
    "boundary moved": _boundary_moved,
    "batch reordered": _batch_reordered,
    "padded tokens": _padded,
    "chunk split": _chunk_split,
}


@st.composite
def variants(draw: st.DrawFn, schedule: Schedule) -> Variant:
    """A schedule changed in one to all of these ways. Shrinks to one change."""
    chosen = draw(st.lists(st.sampled_from(list(TRANSFORMS)), min_size=1, unique=True))
    changed = schedule
    changes: set[str] = set()
    for name in sorted(chosen):
        before = changed
        changed = TRANSFORMS[name](draw, changed)
        changes |= {name} if changed != before or _differs(changed.geometry, before.geometry) else set()
    return Variant(changed, frozenset(changes))


def _differs(a: UnifiedPoolGeometry, b: UnifiedPoolGeometry) -> bool:
    return (a.num_blocks, a.num_slots) != (b.num_blocks, b.num_slots)
