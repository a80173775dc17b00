"""Schedules drawn: chunks behind prefixes, verify steps with rejected drafts, used slots, padded batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.models.index import cdiv
from kvproof.models.row_space import CSA_RATIO, HCA_RATIO
from kvproof.properties.joint.schedule import Forward, Kind, Part, Request, Schedule
from kvproof.properties.strategies.draws import mostly, rarely, seldom_first, seldom_low
from kvproof.properties.strategies.geometry import block_sizes, layer_ratios, planes, ring_sizes
from kvproof.properties.strategies.tokens import taken

MOST_DRAFTS = 7
MOST_FORWARDS = 3
MOST_GROUPS = 3
SHORT_RING = 16
"""A chunk longer than the ring is drawn only where that is few tokens."""


@st.composite
def layouts(draw: st.DrawFn, subject: ModelConfig | None) -> tuple[dict[str, Any], int]:
    """(layout of a pool without its size, draft tokens): any, or a configuration's."""
    if subject is not None:
        base = subject.geometry(0, 0)
        layout = {
            "ratios": list(subject.ratios),
            "ring_slots": base.ring_slots,
            "block_size": base.block_size,
            "arena_rows": base.arena_rows,
            "slot_align_rows": base.slot_align_rows,
        }
        return layout, subject.draft_tokens
    ratios = draw(layer_ratios())
    block_size = draw(block_sizes(ratios))
    ring = draw(ring_sizes(ratios, block_size))
    drafts = min(draw(seldom_low(0, MOST_DRAFTS)), ring - 1)
    layout = {
        "ratios": ratios,
        "ring_slots": ring,
        "block_size": block_size,
        "arena_rows": draw(seldom_low(0, 5)),
        "slot_align_rows": draw(seldom_first([1, 2, 8])),
    }
    return layout, drafts


@st.composite
def schedules(draw: st.DrawFn, subject: ModelConfig | None) -> Schedule:
    """Up to three forwards of up to three requests at once. Shrinks to one token of one request."""
    layout, drafts = draw(layouts(subject))
    groups = draw(seldom_low(1, MOST_GROUPS))
    requests: list[tuple[int, int]] = []  # (group, prefix)
    lengths: list[int] = []
    owner: dict[int, int] = {}
    forwards: list[Forward] = []
    for _ in range(draw(seldom_low(1, MOST_FORWARDS))):
        kind: Kind = draw(st.sampled_from(["decode", "prefill"]))
        parts: list[Part] = []
        left = list(range(groups))
        for _ in range(draw(seldom_low(1, groups))):
            # Drawn right before what the part needs, so that a part goes as a whole when a case shrinks.
            (group,) = taken(draw, left, 1)
            left.remove(group)
            if group not in owner or draw(rarely()):
                owner[group] = len(requests)
                prefix = draw(prefixes(layout))
                requests.append((group, prefix))
                lengths.append(prefix)
            number = owner[group]
            new, kept = draw(new_tokens(kind, drafts, layout["ring_slots"]))
            parts.append(Part(number, new, kept))
            lengths[number] = lengths[number] + kept
        padding = draw(seldom_low(0, 2)) if draw(mostly()) else 0
        forwards.append(Forward(kind, tuple(parts), padding))
    # The last verify step's rejected drafts still have rows.
    needs = [cdiv(length + MOST_DRAFTS + 1, layout["block_size"]) for length in lengths]
    compressed = any(ratio > 0 for ratio in layout["ratios"])
    count = sum(needs) if compressed else 0
    geometry = draw(planes(layout, min_slots=groups, min_blocks=count, most=count + 1))
    ids = taken(draw, range(geometry.num_blocks), count)
    found: list[Request] = []
    for (group, prefix), need in zip(requests, needs, strict=True):
        own, ids = (ids[:need], ids[need:]) if compressed else ([0], ids)
        found.append(Request(group, prefix, tuple(own)))
    return Schedule(
        geometry=geometry,
        win=layout["ring_slots"] - drafts,
        topk=draw(seldom_low(1, 4)),
        requests=tuple(found),
        forwards=tuple(forwards),
        order=draw(st.integers(0, 2**16)),
        scatter=draw(st.booleans()),
    )


def prefixes(layout: Mapping[str, Any]) -> st.SearchStrategy[int]:
    """Positions that a request resumes: none, or up to around the ends of groups."""
    ratios, ring = layout["ratios"], layout["ring_slots"]
    near = [0, 1, ring - 1, ring] if ring <= SHORT_RING else [0, 1, ring - 1]
    if HCA_RATIO in ratios:
        near += [HCA_RATIO - 2, HCA_RATIO - 1, 2 * HCA_RATIO - 1, layout["block_size"] - 1]
    elif CSA_RATIO in ratios:
        near += [2, 3, 7, layout["block_size"]]
    return seldom_first(sorted({max(place, 0) for place in near}))


@st.composite
def new_tokens(draw: st.DrawFn, kind: Kind, drafts: int, ring: int) -> tuple[int, int]:
    """(new tokens, tokens kept) of one request in one forward."""
    if kind == "decode":
        new = draw(seldom_low(1, drafts + 1))
        return new, draw(seldom_low(1, new))
    long = ring <= SHORT_RING and draw(rarely())
    new = ring + draw(seldom_low(1, 2)) if long else draw(seldom_low(1, 6))
    return new, new


def events(schedule: Schedule) -> frozenset[str]:
    """What a schedule shows."""
    found: set[str] = set()
    started: set[int] = set()
    owner: dict[int, int] = {}
    for forward, starts in zip(schedule.forwards, schedule.starts(), strict=True):
        found.add(forward.kind)
        found |= {"padded tokens"} if forward.padding else set()
        found |= {"several requests"} if len(forward.parts) > 1 else set()
        for part, start in zip(forward.parts, starts, strict=True):
            group = schedule.requests[part.request].group
            found |= {"used slot"} if owner.get(group, part.request) != part.request else set()
            found |= {"rejected drafts"} if part.kept < part.new else set()
            found |= {"verify"} if forward.kind == "decode" and part.new > 1 else set()
            chunk = forward.kind == "prefill" and start > 0
            found |= {"earlier chunk"} if chunk and part.request in started else set()
            found |= {"resumed prefix"} if chunk and part.request not in started else set()
            found |= {"chunk longer than the ring"} if part.new > schedule.geometry.ring_slots else set()
            found |= {"second lap"} if start + part.new > schedule.geometry.ring_slots else set()
            groups = HCA_RATIO in schedule.geometry.classes and start + part.new >= HCA_RATIO
            entries = CSA_RATIO in schedule.geometry.classes and start + part.new >= CSA_RATIO
            found |= {"groups"} if groups or entries else set()
            owner[group] = part.request
            started.add(part.request)
    return frozenset(found)
