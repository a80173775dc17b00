"""A schedule: requests and the forwards that serve them, as plain data.

A forward does some new tokens of some requests. A prefill forward does chunks; a decode forward does a request's
last token and its drafts, of which a prefix is kept and the rest is done again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kvproof.models.row_space import UnifiedPoolGeometry
from kvproof.properties.strategies.geometry import geometry_from_json, geometry_json

Kind = Literal["prefill", "decode"]


@dataclass(frozen=True)
class Request:
    """One request.

    Attributes:
        group: pool group, whose slot the request has. Two requests may have one, one after the other.
        prefix: positions that it resumes: its window, entries and state are restored as a checkpoint does.
        blocks: physical blocks, in order.
    """

    group: int
    prefix: int
    blocks: tuple[int, ...]


@dataclass(frozen=True)
class Part:
    """What one forward does for one request.

    Attributes:
        request: its number.
        new: new tokens.
        kept: of them, how many stay; all of a chunk, at least one of a verify step.
    """

    request: int
    new: int
    kept: int


@dataclass(frozen=True)
class Forward:
    """One forward.

    Attributes:
        kind: prefill or decode.
        parts: requests in the order of the batch, each once.
        padding: padded tokens behind the batch.
    """

    kind: Kind
    parts: tuple[Part, ...]
    padding: int = 0

    @property
    def tokens(self) -> int:
        """Tokens, padded ones left out."""
        return sum(part.new for part in self.parts)


@dataclass(frozen=True)
class Schedule:
    """Requests and forwards over one pool.

    Attributes:
        geometry: the pool.
        win: window in tokens.
        topk: entries that a CSA layer selects.
        requests, forwards: in order.
        order: seed of what no caller decides: the order of selected entries, stale contents.
        scatter: whether decode writes rows by destination (or by sequence, as prefill does).
    """

    geometry: UnifiedPoolGeometry
    win: int
    topk: int
    requests: tuple[Request, ...]
    forwards: tuple[Forward, ...]
    order: int = 0
    scatter: bool = True

    @property
    def drafts(self) -> int:
        """Draft tokens that the ring has room for: k."""
        return self.geometry.ring_slots - self.win

    def starts(self) -> list[list[int]]:
        """For each forward, the position of each part's first new token."""
        done = [request.prefix for request in self.requests]
        found: list[list[int]] = []
        for forward in self.forwards:
            found.append([done[part.request] for part in forward.parts])
            for part in forward.parts:
                done[part.request] += part.kept
        return found

    @property
    def tokens_per_block(self) -> int:
        """Positions that a block holds compressed rows of."""
        return self.geometry.block_size


def schedule_json(schedule: Schedule) -> dict[str, Any]:
    """A schedule as JSON values."""
    plain = {f.name: getattr(schedule, f.name) for f in dataclasses.fields(schedule)}
    plain["geometry"] = geometry_json(schedule.geometry)
    plain["requests"] = [dataclasses.asdict(r) | {"blocks": list(r.blocks)} for r in schedule.requests]
    plain["forwards"] = [
        {"kind": f.kind, "parts": [dataclasses.asdict(p) for p in f.parts], "padding": f.padding}
        for f in schedule.forwards
    ]
    return plain


def schedule_from_json(data: Mapping[str, Any]) -> Schedule:
    """The schedule that :func:`schedule_json` wrote.

    Raises:
        ValueError: not such a schedule.
    """
    try:
        return Schedule(
            geometry=geometry_from_json(data["geometry"]),
            win=data["win"],
            topk=data["topk"],
            requests=tuple(Request(r["group"], r["prefix"], tuple(r["blocks"])) for r in data["requests"]),
            forwards=tuple(
                Forward(f["kind"], tuple(Part(**p) for p in f["parts"]), f["padding"]) for f in data["forwards"]
            ),
            order=data["order"],
            scatter=data["scatter"],
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a schedule: {error!r}") from error


def columns_of(requests: Sequence[Request]) -> int:
    """Columns of a block table of these requests; at least one."""
    return max((len(request.blocks) for request in requests), default=1) or 1
