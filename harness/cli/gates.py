"""What ``kvproof gate`` does: what a change means for proofs, compiled kernels and speed, on one page."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from kvproof.harness.bench.alternate import PAIRS, Turns, affordable, take_turns
from kvproof.harness.bench.cpu_series import cpu_series
from kvproof.harness.bench.versions import Version, checkout, compose, describe, git, measure
from kvproof.harness.bench.worker import ON_GPU
from kvproof.harness.cli.measuring import have_gpu, request_of
from kvproof.harness.cli.policy import Policy
from kvproof.harness.cli.steps import Outcome, Step, details, perform, table
from kvproof.kernels.registry import all_kernels
from kvproof.reports import environment
from kvproof.reports.history.run import Run
from kvproof.reports.history.series import COSTS
from kvproof.reports.history.store import open_history
from kvproof.reports.store import default_root, write_atomically
from kvproof.reports.verdicts.compare import (
    Change,
    Comparison,
    Limits,
    fewest_pairs,
    judge,
    log_ratios,
    most_series,
)
from kvproof.reports.verdicts.noise import learned_floors
from kvproof.reports.verdicts.signed_rank import LARGEST

SHARED = ("models/", "kernels/")
"""A change of a file here that is in no kernel's own folder can change every kernel."""

MOST_ROWS = 40
SHARES = {"proofs": 0.25, "kernels": 0.3, "compiled": 0.08}
"""Of the time, what each of these may take at most (compiled code: of each version), so that times get theirs."""


def affected(changed: Sequence[str], kernels: Sequence[str]) -> list[str]:
    """Kernels that a change of these files can change."""
    own = {path.split("/")[1] for path in changed if path.startswith("kernels/") and path.count("/") >= 2}
    if any(path.startswith(SHARED) and path.split("/")[1] not in kernels for path in changed):
        return list(kernels)
    return [name for name in kernels if name in own]


def series_of(touched: Sequence[str], changed: Sequence[str]) -> list[str]:
    """CPU series that a change can affect."""
    layouts = any(path.startswith("models/") for path in changed)
    return [n for n in cpu_series() if n.split(" ")[0] in touched or (layouts and n.startswith("layout "))]


def run_gate(base: str, head: str, out: str | None, seconds: float, policy: Policy) -> int:
    """Check the change, print the page; exit status 1 if the policy says that it fails."""
    begun, root = time.monotonic(), checkout()
    old, new = describe(root, base), describe(root, head)
    changed = git(root, "diff", "--name-only", f"{old[0]}...{new[0]}").splitlines()
    touched = affected(changed, list(all_kernels()))
    outcomes: list[Outcome] = []
    found: dict[str, Comparison] = {}
    notes: list[str] = []
    runs: list[Run] = []
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        sources = {c[0]: compose(root, c[0], scratch / c[0][:12]) for c in (old, new)}
        outcomes = _checks(touched, changed, sources[new[0]], root, seconds)
        if touched:
            limit = seconds * SHARES["compiled"]
            for commit in (old, new):
                version = Version("builtin", *commit, source=sources[commit[0]])
                with request_of("offline", touched, check_seconds=0, seconds=limit) as request:
                    runs.append(measure(version, request))
        gpu, detail = have_gpu()
        trees = sources[old[0]], sources[new[0]]
        left = seconds - (time.monotonic() - begun)
        found, notes = _turns(series_of(touched, changed), *trees, left / 2 if gpu else left, policy)
        if gpu and touched:
            from kvproof.harness.bench.gpu_series import gpu_series

            more, said = _turns(gpu_series(touched), *trees, seconds - (time.monotonic() - begun), policy)
            found, notes = found | more, notes + said
    slower = [name for name, item in found.items() if item.change is Change.SLOWER]
    states = {outcome.verdict for outcome in outcomes} | ({"SLOWER"} if slower else set())
    failed = sorted(states & set(policy.fail_on))
    lines = [f"## {old[0][:10]} to {new[0][:10]}: {new[3]}", ""]
    lines += [f"**{', '.join(failed)}**" if failed else "**PASS**: nothing that fails the gate.", ""]
    lines += [f"{len(changed)} files changed; {len(touched)} of {len(all_kernels())} kernels can be affected.", ""]
    lines += [*table(outcomes), "", *_compiled(runs, policy), *_times(found), *notes]
    if not gpu:
        lines.append(f"NOT_RUN: times on a GPU, since {detail}.")
    lines += [*details(outcomes), "", f"{time.monotonic() - begun:.0f} s."]
    page = "\n".join(lines) + "\n"
    print(page)
    if out is not None:
        write_atomically(Path(out), page)
    return 1 if failed else 0


def _checks(
    touched: Sequence[str], changed: Sequence[str], source: Path, root: Path, seconds: float
) -> list[Outcome]:
    """Proofs and compiled kernels of the new version. What has not changed comes from the lock and the cache."""
    steps: list[Step] = []
    if any(path.startswith(("models/", "properties/", "proofs/", "harness/")) for path in changed):
        steps.append(Step("changed layouts proved", ("prove",), seconds * SHARES["proofs"]))
    if touched:
        limit = seconds * SHARES["kernels"]
        steps.append(Step("changed kernels checked", ("ir", "check", *touched), limit))
    store = {"KVPROOF_STORE": os.fspath(default_root().resolve())}
    return [perform(step, root, source, store) for step in steps]


def _turns(
    wanted: Sequence[str], old: Path, new: Path, seconds: float, policy: Policy
) -> tuple[dict[str, Comparison], list[str]]:
    """Series of both versions in turn, each held to its own noise; and what was not measured, and why."""
    if not wanted:
        return {}, ["Times: no series can be affected.", ""]
    begun, on_gpu = time.monotonic(), wanted[0].endswith(ON_GPU)
    relevance = policy.relevance if on_gpu else policy.cpu_relevance
    limits = Limits(policy.alpha, policy.family, relevance)
    chosen, without = affordable(new, wanted, max(seconds, 1.0), pairs_for(len(wanted), limits))
    notes = [f"NOT_RUN: {name}: {why[:160]}" for name, why in without.items()]
    if not chosen:
        return {}, [*notes, ""]
    pairs = pairs_for(len(chosen), limits)
    turns = take_turns(old, new, chosen, seed=0, pairs=pairs, seconds=seconds - (time.monotonic() - begun))
    notes += [f"NOT_RUN: {name}: {why[:160]}" for name, why in turns.failed.items()]
    done = max((len(pair.old) for pair in turns.paired.values()), default=0)
    names, said = decidable(turns, pairs, limits)
    notes += said
    if not names:
        return {}, [*notes, ""]
    measured = [turns.paired[name] for name in names]
    sides = [([b.samples for b in p.old], [b.samples for b in p.new]) for p in measured]
    known = learned_floors(open_history(None).runs(), environment.machine()["host"])
    floors = [known.get(name, 0.0) for name in names]
    found = judge([log_ratios(*side, least=not on_gpu) for side in sides], limits, floors)
    notes.append(
        f"{done} pairs of processes. A difference counts from {relevance:.0%} on, or from a series' "
        f"own noise: of {sum(name in known for name in names)} of {len(names)} series it is known on this machine "
        "(`kvproof bench --alike`)."
    )
    return dict(zip(names, found, strict=True)), [*notes, ""]


def pairs_for(series: int, limits: Limits) -> int:
    """Pairs of processes for so many series: with fewer, one alone that became slower could not be told."""
    return min(max(PAIRS, fewest_pairs(series, limits)), LARGEST)


def decidable(turns: Turns, pairs: int, limits: Limits) -> tuple[list[str], list[str]]:
    """(series that the pairs measured can decide, a note on each that they cannot).

    The fewer pairs there are, the fewer series they can tell apart from chance. Which ones are kept follows from
    their order, never from what was measured.
    """
    names = list(turns.paired)
    done = max((len(pair.old) for pair in turns.paired.values()), default=0)
    kept = names[: most_series(done, limits)]
    if len(kept) == len(names):
        return kept, []
    few = (
        f"{done} of {pairs} pairs of processes fitted; {len(names)} series need {fewest_pairs(len(names), limits)}"
    )
    if not kept:
        few += f", and one {fewest_pairs(1, limits)}"
    return kept, [f"NOT_RUN: {name}: undecided: {few}." for name in names if name not in kept]


def _compiled(runs: Sequence[Run], policy: Policy) -> list[str]:
    """Markdown lines: what changed in compiled code."""
    if len(runs) != 2:
        return []
    values: list[Mapping[tuple[str, str, str], int]] = [
        {
            (c.name, c.on, metric): value
            for c in run.counts
            for metric, value in c.values.items()
            if metric in COSTS
        }
        for run in runs
    ]
    moved = [
        (key, values[0][key], value)
        for key, value in values[1].items()
        if key in values[0] and abs(value - values[0][key]) > policy.count_relevance * values[0][key]
    ]
    moved.sort(key=lambda item: -abs(item[2] - item[1]) / max(item[1], 1))
    same = len(values[1]) - len(moved)
    lacking = sorted({f"{m.name.split(' ')[0]} ({m.reason[:60]})" for run in runs for m in run.missing})
    without = [f"NOT_RUN: compiled code of {', '.join(lacking)}."] if lacking else []
    if not moved:
        return [f"Compiled code: {same:,} numbers are the same.", *without, ""]
    lines = ["| compiled code | for | metric | before | after | change |", "|---|---|---|---:|---:|---:|"]
    for (name, on, metric), before, after in moved[:MOST_ROWS]:
        change = f"{after / before - 1:+.1%}" if before else f"+{after}"
        lines.append(f"| {name} | {on} | {metric} | {before:,} | {after:,} | {change} |")
    return [*lines, "", f"{len(moved):,} numbers changed, {same:,} did not.", *without, ""]


def _times(found: Mapping[str, Comparison]) -> list[str]:
    """Markdown lines: CPU times of both versions."""
    if not found:
        return []
    lines = ["| time | verdict | change | interval | counts from | p |", "|---|---|---:|---|---:|---:|"]
    for name, item in sorted(found.items(), key=lambda pair: -abs(pair[1].ratio)):
        lines.append(
            f"| {name} | {item.change} | {item.ratio:+.1%} | {item.low:+.1%} to {item.high:+.1%} "
            f"| {item.floor:.1%} | {item.adjusted:.2g} |"
        )
    return [*lines, ""]
