"""A campaign: many seeded episodes, each of fresh pools, journalled one by one.

Episode n of a campaign is drawn from (seed, n) alone, so it can be run anywhere and again, in any order, by any
process. A finding is on disk before the journal says that its episode is done.
"""

from __future__ import annotations

import itertools
import multiprocessing
import time
from collections.abc import Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kvproof.harness.simulate.driver import Workload
from kvproof.harness.simulate.findings import finding_of
from kvproof.harness.simulate.journal import Journal
from kvproof.harness.simulate.places import Layers, Settings
from kvproof.harness.simulate.schedule import World, draw
from kvproof.harness.simulate.shrink import shrink
from kvproof.harness.simulate.site import Size
from kvproof.harness.simulate.targets import parts_of
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.reports import environment
from kvproof.reports.codec import decode_finding, finding_text
from kvproof.reports.finding import Finding
from kvproof.reports.store import write_atomically

EPISODE = 100_000
"""Request-steps of an episode without kernels: some seconds."""

DEVICE_EPISODE = 200
"""The same with kernels."""

SHRINK_ATTEMPTS = 400
"""Schedules tried to shrink a failure of an episode; the journal of a schedule of thousands of steps is long."""

MOST_FINDINGS = 5
"""After so many findings a campaign ends: the rest would be more of the same."""


@dataclass(frozen=True)
class Plan:
    """What a campaign does.

    Attributes:
        config: the configuration.
        steps: request-steps.
        seed: seed of everything drawn.
        layers: "representative" or "all".
        target, device: whose kernels each step runs, and where; "reference" and "" for none.
        jobs: processes.
        episode: request-steps of an episode; None for what the device takes.
    """

    config: ModelConfig
    steps: int
    seed: int = 0
    layers: Layers = "representative"
    target: str = "reference"
    device: str = ""
    jobs: int = 1
    episode: int | None = None

    @property
    def episode_steps(self) -> int:
        """Request-steps of an episode."""
        return self.episode or (DEVICE_EPISODE if self.device else EPISODE)

    def header(self) -> dict[str, Any]:
        """What a journal must agree in for a campaign to go on in it; steps may grow, and jobs change nothing."""
        return {
            "campaign": "kvproof/simulate/1",
            "config": self.config.name,
            "seed": self.seed,
            "layers": self.layers,
            "target": self.target,
            "device": self.device,
            "episode": self.episode_steps,
            "commit": environment.commit(),
        }


@dataclass
class Outcome:
    """What an episode, or a campaign so far, came to.

    Attributes:
        episodes, request_steps, steps: how many.
        events: how often each thing happened.
        findings: faults met, shrunk.
        seconds: time of the episodes, summed over processes.
    """

    episodes: int = 0
    request_steps: int = 0
    steps: int = 0
    events: dict[str, int] = field(default_factory=dict[str, int])
    findings: list[Finding] = field(default_factory=list[Finding])
    seconds: float = 0.0

    def add(self, other: Outcome) -> None:
        """Count another."""
        self.episodes += other.episodes
        self.request_steps += other.request_steps
        self.steps += other.steps
        self.seconds += other.seconds
        for event, times in other.events.items():
            self.events[event] = self.events.get(event, 0) + times
        known = {finding.id for finding in self.findings}
        self.findings += [finding for finding in other.findings if finding.id not in known]


def world_of(plan: Plan, episode: int) -> World:
    """Pools and workload of an episode: of any size, ids in and out of order, with and without prefix cache."""
    rng = np.random.default_rng([plan.seed, episode, 1])
    parts = parts_of(plan.target, plan.device)
    block = plan.config.block_size
    if plan.device:
        slots, positions = int(rng.integers(2, 5)), 3 * block
        shared, own, answer, chunk = 2 * block, block // 2, 12, block
    else:
        slots, positions = int(rng.choice([64, 96, 128])), 4 * block
        if plan.episode_steps < EPISODE // 2:
            slots = int(rng.integers(2, 9))
        shared, own, answer, chunk = 2 * block + block // 2, block, int(rng.integers(60, 200)), block
    return World(
        settings=Settings(plan.config, plan.layers),
        size=Size(
            slots=slots,
            blocks=slots * int(rng.integers(3 if slots > 8 else 2, 7)),
            positions=positions,
            images=int(rng.integers(1, 33)),
            prefix_cache=bool(rng.random() < 0.9),
            order=int(rng.integers(0, 2**31)) if rng.random() < 0.5 else None,
        ),
        parts=parts,
        workload=Workload(
            families=int(rng.integers(1, 9)),
            shared=shared,
            own=own,
            answer=answer,
            chunk=int(rng.integers(block // 4, chunk + 1)),
            trouble=float(rng.choice([0.1, 0.3, 0.6])),
            bucket=int(rng.choice([4, 8, 16])),
        ),
    )


def run_episode(plan: Plan, episode: int, most: int | None = None) -> Outcome:
    """One episode, at most so many request-steps before it is drained; a failure is shrunk."""
    begun = time.process_time()
    world = world_of(plan, episode)
    engine, failure = draw(world, [plan.seed, episode], min(plan.episode_steps, most or plan.episode_steps))
    outcome = Outcome(1, engine.request_steps, engine.step, dict(engine.events))
    if failure is not None:
        found = shrink(world, failure, SHRINK_ATTEMPTS)
        outcome.findings = [finding_of(world, found, plan.target, plan.device, plan.seed)]
    outcome.seconds = time.process_time() - begun
    return outcome


def run_campaign(plan: Plan, folder: Path | None = None) -> Generator[Outcome, None, None]:
    """Run a campaign to its end, or go on with one.

    Args:
        plan: what to do.
        folder: where the journal and the findings are kept; nothing is kept if None.

    Yields:
        The outcome so far: after what the journal holds, and after each episode.

    Raises:
        JournalError: the folder's journal is of another campaign, or cannot be written.
    """
    total = Outcome()
    journal = Journal(folder / "journal.jsonl", plan.header()) if folder is not None else None
    done, lost = set[int](), set[int]()
    if journal is not None and folder is not None:
        done, lost = _recall(journal, folder, total)
    yield total
    try:
        for episode, outcome in itertools.chain(_again(plan, lost), _episodes(plan, done | lost, total)):
            if journal is not None and folder is not None:
                _keep(journal, folder, episode, outcome)
            total.add(outcome)
            yield total
    finally:
        if journal is not None:
            journal.close()


def _recall(journal: Journal, folder: Path, total: Outcome) -> tuple[set[int], set[int]]:
    """(episodes that the journal holds, those of them whose findings are gone)."""
    done, lost = set[int](), set[int]()
    for entry in list(journal.entries):
        episode = int(entry["episode"])
        if episode in done:
            continue
        paths = [folder / "findings" / f"{name}.json" for name in entry["findings"]]
        if not all(path.exists() for path in paths):
            lost.add(episode)
            continue
        findings = [decode_finding(path.read_text(encoding="utf-8"), str(path)) for path in paths]
        total.add(Outcome(1, entry["request_steps"], entry["steps"], entry["events"], findings, entry["seconds"]))
        done.add(episode)
    return done, lost - done


def _again(plan: Plan, episodes: set[int]) -> Iterator[tuple[int, Outcome]]:
    """Episodes that somebody took the findings of."""
    for episode in sorted(episodes):
        yield episode, run_episode(plan, episode)


def _keep(journal: Journal, folder: Path, episode: int, outcome: Outcome) -> None:
    """Findings first: a journal that knows an episode vouches for its findings."""
    for finding in outcome.findings:
        write_atomically(folder / "findings" / f"{finding.id}.json", finding_text(finding))
    journal.append(
        {
            "episode": episode,
            "request_steps": outcome.request_steps,
            "steps": outcome.steps,
            "events": outcome.events,
            "findings": [finding.id for finding in outcome.findings],
            "seconds": round(outcome.seconds, 3),
        }
    )


def _episodes(plan: Plan, done: set[int], total: Outcome) -> Iterator[tuple[int, Outcome]]:
    """Episodes that are still to be run, in the order in which they end."""
    numbers = (n for n in range(10**9) if n not in done)

    def enough() -> bool:
        return total.request_steps >= plan.steps or len(total.findings) >= MOST_FINDINGS

    if plan.jobs == 1:
        while not enough():
            episode = next(numbers)
            yield episode, run_episode(plan, episode, plan.steps - total.request_steps)
        return
    # Spawned, since a process with threads (torch, a terminal) must not be forked.
    with ProcessPoolExecutor(plan.jobs, multiprocessing.get_context("spawn"), max_tasks_per_child=16) as pool:
        running: dict[Future[Outcome], int] = {}
        ahead = total.request_steps
        try:
            while running or not enough():
                while len(running) < plan.jobs and ahead < plan.steps and not enough():
                    episode = next(numbers)
                    running[pool.submit(run_episode, plan, episode)] = episode
                    ahead += plan.episode_steps
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(future), future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
