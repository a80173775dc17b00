"""Limits found by the prover: the last value that proves, and the schedule or address that breaks the next one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kvproof.harness.prove.discharge import Solvers, grouped
from kvproof.harness.prove.explore import explore
from kvproof.harness.prove.replay import Replayed, case_of, replay_case
from kvproof.harness.prove.shrink import least_model
from kvproof.harness.prove.subject import Subject, config_subject
from kvproof.harness.solve.query import Outcome
from kvproof.harness.symbolic import UnsupportedError
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.models.index import INT32_MAX, INT64_MAX, Condition, within
from kvproof.models.row_space import RowSpace
from kvproof.properties.layouts.addresses import choose_compress, choose_window, entry_ratios, envelope_ratios
from kvproof.properties.layouts.pools import Pool, pool_of
from kvproof.properties.layouts.schedules import (
    plan_keeps_enough,
    state_rings,
    state_survives,
    state_writes_apart,
    window_survives,
)
from kvproof.properties.statement import Chooser, Needs, Statement
from kvproof.reports.verdict import Status, Verdict

Claim = Callable[[Any, Chooser, int], Condition]
"""A statement with a parameter: true of a system up to some value of it (or from some value on)."""


@dataclass(frozen=True)
class Limit:
    """One derived limit.

    Attributes:
        name: what is limited.
        value: the last value that proves; None if the search did not end in a proof and a refutation.
        beyond: the next value, which is refuted.
        witness: a concrete case in which it fails.
        unit: of the value.
        has: the configuration's own value, where it has one.
        verdict: PASS if the value is proved by every solver and the next one refuted by a case that replays.
        seconds: wall time.
    """

    name: str
    value: int | None
    beyond: int | None
    witness: str
    unit: str
    has: int | None
    verdict: Verdict
    seconds: float


@dataclass(frozen=True)
class Search:
    """Which way a claim holds, and where to look.

    Attributes:
        claim: the claim.
        rising: it holds from some value on (a ring); else up to some value (a plane).
        low, high: bounds of the search; the claim changes its truth between them.
        guess: where it is tried first.
    """

    claim: Claim
    rising: bool
    low: int
    high: int
    guess: int


@dataclass(frozen=True)
class _Decision:
    holds: bool | None
    words: str


def config_limits(config: ModelConfig, solvers: Solvers) -> Iterator[Limit]:
    """Every derived limit of a configuration."""
    space = config_subject(config)
    yield from _plane_limits(config, space, solvers)
    yield from ring_limits(config, solvers)


def _plane_limits(config: ModelConfig, subject: Subject, solvers: Solvers) -> Iterator[Limit]:
    pool = pool_of(config, 0, 0)
    slack = 4 * (pool.space.slot_rows + pool.space.envelope_rows)
    yield _limit(
        "plane rows for int32 indices", subject, _fits(1, 1, INT32_MAX), INT32_MAX + 1, slack, solvers, "rows"
    )
    for plane in pool.state.planes:
        for width, most in (("int32", INT32_MAX), ("int64", INT64_MAX)):
            for what, per_row in (("byte", plane.row_bytes), ("element", _elements(plane.name, plane.row_bytes))):
                if what == "element" and per_row == plane.row_bytes:
                    continue
                name = f"{plane.name}: plane rows for {width} {what} offsets"
                claim = _fits(per_row, per_row, most)
                yield _limit(name, subject, claim, (most + 1) // per_row, slack, solvers, "rows")
    for number, plane in enumerate(pool.state.planes):
        ends = [item.offset + item.field.nbytes for item in pool.state.placed if item.plane == number]
        if ends:
            slot_bytes = pool.space.slot_rows * plane.row_bytes
            name = f"{plane.name}: slots for int32 fp32 offsets of the state"
            claim = _state_fits(slot_bytes, max(ends))
            yield _limit(name, subject, claim, (INT32_MAX + 1) // (slot_bytes // 4), 4, solvers, "slots")


def _elements(plane: str, row_bytes: int) -> int:
    """Elements of a row as kernels see the plane: the packed plane in bytes, the others in bf16."""
    return row_bytes if plane == "nope" else row_bytes // 2


def _fits(per_row: int, last: int, most: int) -> Claim:
    """With at most ``limit`` plane rows the last element of every index is at most ``most``."""

    def claim(space: RowSpace, choose: Chooser, limit: int) -> Condition:
        choose.assume(space.plane_rows <= limit)
        if choose.pick("kind", ("window", "compressed")) == "window":
            index = choose_window(space, choose, choose.pick("class", entry_ratios(space))).index
        else:
            index = choose_compress(space, choose, choose.pick("class", envelope_ratios(space))).index
        return within(index * per_row, 0, most - last + 2)

    return claim


def _state_fits(slot_bytes: int, end: int) -> Claim:
    """With at most ``limit`` slots every fp32 of a slot's state in this plane has an int32 offset."""

    def claim(space: RowSpace, choose: Chooser, limit: int) -> Condition:
        choose.assume((space.held_slots <= limit) & (space.slot_origin == 0))
        slot = space.physical_slot(choose.integer("group", 0, space.num_slots - 1))
        return slot * (slot_bytes // 4) + end // 4 - 1 <= INT32_MAX

    return claim


def ring_limits(config: ModelConfig, solvers: Solvers) -> Iterator[Limit]:
    """The least window and state rings of a configuration, and the drafts that its write plans survive."""
    nothing = Subject(config.name, "pool", (), lambda _sizes: None)
    window, drafts = config.sliding_window, config.draft_tokens

    def ring(_system: Any, choose: Chooser, limit: int) -> Condition:
        return window_survives(choose, window, drafts, limit)

    need = window + drafts
    search = Search(ring, True, 1, 2 * need + 2, need)
    name = f"ring positions for a window of {window} with {drafts} drafts"
    yield search_limit(name, nothing, search, solvers, "positions", config.ring_slots)
    for state in state_rings(Pool(config, config.geometry(0, 0), config.state_layout())):

        def survives(_system: Any, choose: Chooser, limit: int, state: Any = state) -> Condition:
            if choose.pick("what", ("read", "written")) == "read":
                return state_survives(choose, state.ratio, state.pooled, drafts, limit)
            return state_writes_apart(choose, state.pooled, limit)

        need = state.pooled + max(drafts - 1, 0)
        search = Search(survives, True, 1, 2 * need + 4, need)
        name = f"{state.field}: state ring for ratio {state.ratio}, {state.pooled} pooled, {drafts} drafts"
        yield search_limit(name, nothing, search, solvers, "positions", state.ring)

        def kept(_system: Any, choose: Chooser, limit: int, state: Any = state) -> Condition:
            return plan_keeps_enough(choose, state.pooled, limit)

        search = Search(kept, False, 0, 4 * state.pooled + 4, state.pooled - 1)
        name = f"{state.field}: drafts that the write plan of {state.pooled} rows survives"
        yield search_limit(name, nothing, search, solvers, "drafts", drafts)


def _limit(
    name: str, subject: Subject, claim: Claim, guess: int, slack: int, solvers: Solvers, unit: str
) -> Limit:
    """A limit near a guess: the last plane rows may be ones that hold no whole slot, so it lies a little above."""
    return search_limit(name, subject, Search(claim, False, 0, guess + slack, guess), solvers, unit, None)


def search_limit(
    name: str, subject: Subject, search: Search, solvers: Solvers, unit: str, has: int | None
) -> Limit:
    """The last value that every solver proves, with the case that breaks the next one."""
    start = time.perf_counter()
    step = -1 if search.rising else 1
    try:
        value = _edge(subject, search, solvers)
        good = _decide(subject, search.claim, value, solvers)
        bad = _decide(subject, search.claim, value + step, solvers)
    except UnsupportedError as error:
        verdict = Verdict(Status.UNSUPPORTED, str(error))
        return Limit(name, None, None, "", unit, has, verdict, time.perf_counter() - start)
    seconds = time.perf_counter() - start
    if good.holds is True and bad.holds is False:
        safe = has is None or (has >= value if search.rising else has <= value)
        verdict = (
            Verdict(Status.PASS) if safe else Verdict(Status.FAIL, f"the configuration has {has}: {bad.words}")
        )
        return Limit(name, value, value + step, bad.words, unit, has, verdict, seconds)
    reason = f"{value}: {good.words or good.holds}; {value + step}: {bad.words or bad.holds}"
    return Limit(name, None, None, "", unit, has, Verdict(Status.UNKNOWN, reason), seconds)


def _edge(subject: Subject, search: Search, solvers: Solvers) -> int:
    """Where the claim changes: at the guess if that is right, else by halving, by the first solver's word."""

    def holds(value: int) -> bool:
        paths = explore(subject, _statement(subject, search.claim, value), solvers.feasible)
        return not any(
            solvers.counterexample(group.query).outcome is Outcome.SAT
            for path in paths
            for group in grouped(path.obligations)
        )

    step = -1 if search.rising else 1
    if holds(search.guess) and not holds(search.guess + step):
        return search.guess
    low, high = search.low, search.high
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle) == search.rising:
            high = middle
        else:
            low = middle
    return high if search.rising else low


def _decide(subject: Subject, claim: Claim, value: int, solvers: Solvers) -> _Decision:
    """Whether a claim holds at a value, by every solver, or fails in a case that replays."""

    statement = _statement(subject, claim, value)
    for path in explore(subject, statement, solvers.feasible):
        for group in grouped(path.obligations):
            reply = solvers.prove(group.query)
            if reply.proved:
                continue
            found = next((a for a in reply.answers if a.outcome is Outcome.SAT), None)
            if found is None:
                return _Decision(None, "; ".join(a.reason for a in reply.answers if a.reason))
            model = least_model(group.query, found.model, path.names, solvers)
            case = case_of(subject, path, model)
            if replay_case(subject, statement, case).outcome is Replayed.FAILS:
                return _Decision(False, shown(case))
            return _Decision(None, f"a counterexample does not replay: {shown(case)}")
    return _Decision(True, "")


def _statement(subject: Subject, claim: Claim, value: int) -> Statement:
    def body(system: Any, /, choose: Chooser, slip: int = 0) -> Condition:
        del slip
        return claim(system, choose, value)

    return Statement("limit", "", subject.system, body, Needs(0), "")


def shown(case: Mapping[str, Any]) -> str:
    """A case in one line."""
    values = {**case["sizes"], **case["choices"]}
    return ", ".join(f"{name} = {value}" for name, value in values.items())
