"""Host modules of a target: geometry field by field, copy plans byte by byte, pools by their invariants."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from kvproof.harness.run.exploration import Abandon, Shrinking, explore
from kvproof.harness.run.host_state import (
    checkpoint_cases,
    checkpoint_wrong,
    page_codec_cases,
    page_codec_wrong,
    state_arena_cases,
    state_arena_wrong,
    state_pool_cases,
    state_pool_wrong,
)
from kvproof.harness.run.replay import register_replayer
from kvproof.harness.run.targets import reopened
from kvproof.harness.targets.device import IsolatedDevice
from kvproof.harness.targets.host import geometry_facts
from kvproof.harness.targets.workers.outcomes import NotStarted, WorkerDied
from kvproof.models.errors import LayoutError
from kvproof.properties.strategies.geometry import geometries, geometry_from_json, geometry_json
from kvproof.reports import environment
from kvproof.reports.finding import Finding
from kvproof.reports.result import Result
from kvproof.reports.verdict import Status, Verdict

ENGINE = "host"
LEAST_CASES = 50
NOT_RUN = "not run: "


@dataclass(frozen=True)
class HostContract:
    """What a host module promises.

    Attributes:
        name: as in a profile's ``host``.
        words: in one sentence.
        cases: draws an input, as JSON values.
        wrong: what is wrong about an answer to an input; empty if nothing is.
    """

    name: str
    words: str
    cases: st.SearchStrategy[Any]
    wrong: Callable[[Any, Any], str]


def check_host(
    contract: HostContract, device: IsolatedDevice, *, seconds: float, seed: int = 0, cases: int = 200
) -> Result:
    """Run drawn inputs of a host contract on a target's module."""
    label = device.target.label
    profile = device.target.profile()
    empty = Result("host", contract.name, "fuzz", Verdict(Status.NOT_RUN, "not begun"), 0.0, target=label)
    if profile is None or contract.name not in profile.host:
        reason = "the profile maps no such host module"
        return Result("host", contract.name, "fuzz", Verdict(Status.UNSUPPORTED, reason), 0.0, target=label)
    missing: list[str] = []

    def trial(data: st.DataObject, shrinking: Shrinking) -> tuple[str, ...]:
        given = data.draw(contract.cases)
        fault = run_host(contract, device, given)
        if fault.startswith(("not offered", NOT_RUN)):
            missing.append(fault)
            raise Abandon(None, "not shrunk to the end: the worker does not start any more")
        if fault:
            raise shrinking.failed((given, fault))
        return ()

    run = explore(trial, budget_seconds=seconds, seed=seed, case_target=cases, shrink_seconds=10.0)
    if missing and run.failure is None:
        status = Status.NOT_RUN if missing[0].startswith(NOT_RUN) else Status.UNSUPPORTED
        verdict = Verdict(status, missing[0].removeprefix(NOT_RUN))
        return Result("host", contract.name, "fuzz", verdict, run.seconds, target=label)
    if run.failure is None:
        short = run.cases < LEAST_CASES
        verdict = (
            Verdict(Status.UNKNOWN, f"ran {run.cases} of {LEAST_CASES} cases") if short else Verdict(Status.PASS)
        )
        return Result("host", contract.name, "fuzz", verdict, run.seconds, run.cases, target=label)
    given, fault = run.failure
    finding = Finding(
        ENGINE,
        contract.name,
        contract.words,
        "host",
        {"host": contract.name, "given": given},
        fault,
        target=label,
        commit=environment.commit(),
        seed=seed,
    )
    return Result(
        empty.subject,
        contract.name,
        "fuzz",
        Verdict(Status.FAIL, fault),
        run.seconds,
        run.cases,
        target=label,
        findings=(finding,),
    )


def run_host(contract: HostContract, device: IsolatedDevice, given: Any) -> str:
    """What is wrong about a target's answer to one input."""
    try:
        answer = device.worker.ask("host", {"name": contract.name, "given": given}, 30)
    except NotStarted as gone:
        return f"{NOT_RUN}{gone}"
    except WorkerDied as died:
        return f"the worker died: {died}"
    except RuntimeError as error:
        text = str(error)
        return f"not offered: {text}" if text.startswith("NotOffered") else f"it raised {text}"
    return contract.wrong(given, answer)


def replay_host(finding: Finding) -> Verdict:
    """Run a host finding's input again, in a worker of its own."""
    contract = HOST_CONTRACTS.get(str(finding.case.get("host")))
    if contract is None:
        return Verdict(Status.UNKNOWN, f"there is no host contract {finding.case.get('host')!r} any more")
    with tempfile.TemporaryDirectory(prefix="kvproof-") as scratch:
        try:
            device = IsolatedDevice(reopened(finding.target, Path(scratch)), "interpret")
        except LayoutError as error:
            return Verdict(Status.NOT_RUN, f"the target is not here: {error}")
        try:
            fault = run_host(contract, device, finding.case["given"])
        finally:
            device.close()
    if fault.startswith(("not offered", NOT_RUN)):
        return Verdict(Status.NOT_RUN, fault)
    return Verdict(Status.FAIL, fault) if fault else Verdict(Status.PASS, bounds=("this case",))


# ---- geometry -----------------------------------------------------------------------


@st.composite
def _geometry_cases(draw: st.DrawFn) -> dict[str, Any]:
    geometry = draw(geometries())
    rows = max((geometry.block_size // r for r in geometry.ratios if r > 0), default=1)
    return {
        "geometry": geometry_json(geometry),
        "samples": {
            "blocks": sorted({0, max(int(geometry.num_blocks) - 1, 0)}),
            "rows": sorted({0, rows - 1}),
            "slots": sorted({0, max(int(geometry.num_slots) - 1, 0)}),
            "ring positions": sorted({0, int(geometry.ring_slots) // 2, int(geometry.ring_slots) - 1}),
            "bytes": [512, 1024],
        },
    }


def _geometry_wrong(given: Mapping[str, Any], answer: Mapping[str, Any]) -> str:
    ours = geometry_facts(geometry_from_json(given["geometry"]), given["samples"])
    known = {name: value for name, value in answer.items() if value != "not offered"}
    if len(known) * 2 < len(ours):
        return f"not offered: only {len(known)} of {len(ours)} fields"
    for name, value in known.items():
        # Where models/ refuses, the question has no answer, and a target need not check it.
        if ours[name] not in ("refused", "not offered", value):
            return f"{name}: expected {ours[name]}, got {value}"
    return ""


# ---- a copy plan ----------------------------------------------------------------------


@st.composite
def _copy_cases(draw: st.DrawFn) -> dict[str, Any]:
    sizes = st.lists(st.integers(1, 6).map(lambda n: 16 * n), min_size=1, max_size=4)
    source, target = draw(sizes), draw(sizes)
    most = min(sum(source), sum(target)) // 16
    return {"source": source, "target": target, "bytes": 16 * draw(st.integers(1, most))}


def _copy_wrong(given: Mapping[str, Any], answer: list[list[int]]) -> str:
    """Byte n of the sources, laid end to end, goes to byte n of the targets, each once and none else."""
    moved: dict[int, int] = {}
    starts = {side: [sum(given[side][:n]) for n in range(len(given[side]))] for side in ("source", "target")}
    for from_segment, from_byte, to_segment, to_byte, length in answer:
        if length <= 0:
            return f"a span of {length} bytes"
        ends = (from_byte + length > given["source"][from_segment], to_byte + length > given["target"][to_segment])
        if min(from_byte, to_byte) < 0 or any(ends):
            return f"span {[from_segment, from_byte, to_segment, to_byte, length]} leaves its segment"
        for n in range(length):
            to = starts["target"][to_segment] + to_byte + n
            if to in moved:
                return f"byte {to} of the targets is written twice"
            moved[to] = starts["source"][from_segment] + from_byte + n
    for n in range(given["bytes"]):
        if moved.get(n) != n:
            return f"byte {n} of the targets: expected byte {n} of the sources, got {moved.get(n)}"
    return "" if len(moved) == given["bytes"] else f"{len(moved)} bytes are moved instead of {given['bytes']}"


# ---- a pool of blocks -------------------------------------------------------------------


@st.composite
def _pool_cases(draw: st.DrawFn) -> dict[str, Any]:
    steps = st.one_of(
        st.just(["pop"]),
        st.tuples(st.just("free"), st.integers(0, 9)).map(list),
        st.tuples(st.just("publish"), st.integers(0, 9), st.integers(1, 5)).map(list),
        st.tuples(st.just("lookup"), st.integers(1, 5)).map(list),
    )
    return {"blocks": draw(st.integers(1, 5)), "steps": draw(st.lists(steps, max_size=20))}


def _pool_wrong(given: Mapping[str, Any], answer: list[Any]) -> str:
    """No block is handed out while someone has it; every free block can be; counts are right."""
    held: list[int] = []
    for step, (done, free, used) in zip(given["steps"], answer, strict=True):
        if step[0] == "pop":
            full = len(held) == given["blocks"]
            if done is None:
                if not full:
                    return f"no block although {given['blocks'] - len(held)} of {given['blocks']} are free"
            elif done in held or not 0 <= done < given["blocks"]:
                return f"block {done} is handed out while {held} are held, of {given['blocks']}"
            else:
                held.append(done)
        elif step[0] == "free" and held:
            held.remove(held[step[1] % len(held)])
        if (free, used) != (given["blocks"] - len(held), len(held)):
            return f"after {step}: {free} free and {used} used; held are {held} of {given['blocks']}"
    return ""


HOST_CONTRACTS: Mapping[str, HostContract] = {
    c.name: c
    for c in (
        HostContract(
            "geometry", "the geometry says of every layout what models/ says", _geometry_cases(), _geometry_wrong
        ),
        HostContract(
            "copy plan", "each byte goes to its place, once, and nothing else moves", _copy_cases(), _copy_wrong
        ),
        HostContract("block pool", "no block has two owners, and none is lost", _pool_cases(), _pool_wrong),
        HostContract(
            "state pool", "no group has two owners, and none is lost", state_pool_cases(), state_pool_wrong
        ),
        HostContract(
            "state arena",
            "each field of each layer and slot lies where models/ says",
            state_arena_cases(),
            state_arena_wrong,
        ),
        HostContract(
            "checkpoint codec",
            "a checkpoint comes back as it was, and one that is damaged or another's does not",
            checkpoint_cases(),
            checkpoint_wrong,
        ),
        HostContract(
            "page codec",
            "pages and slots are where their regions have them, and plans have their sizes",
            page_codec_cases(),
            page_codec_wrong,
        ),
    )
}
"""By name."""

register_replayer(ENGINE, replay_host)
