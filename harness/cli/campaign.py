"""One run of ``verify``, ``prove`` or ``fuzz``: what is checked, in which order and time, and the record of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Protocol

from kvproof.harness.cli import engines
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.reports import environment
from kvproof.reports.finding import Finding
from kvproof.reports.record import DeviceNote, Record
from kvproof.reports.result import Result
from kvproof.reports.verdict import Verdict


@dataclass(frozen=True)
class Plan:
    """What a run is to check.

    Attributes:
        command: the subcommand and its options, for the record.
        subjects: configurations.
        proving, fuzzing: the halves to run.
        device: "auto" or a device name.
        budget_seconds: time for the whole fuzz half.
        seed: seed of everything drawn.
    """

    command: tuple[str, ...]
    subjects: tuple[ModelConfig, ...]
    proving: bool
    fuzzing: bool
    device: str = "auto"
    budget_seconds: float = 60.0
    seed: int = 0


class Listener(Protocol):
    """Is told how a run goes on."""

    def planned(self, checks: int) -> None:
        """So many checks will be made."""
        ...

    def starting(self, what: str) -> None:
        """A check begins, or a group of them."""
        ...

    def finished(self, result: Result) -> None:
        """A check is done."""
        ...


@dataclass
class Campaign:
    """A run under way. :meth:`run` may be interrupted at any time; what it had found is kept.

    Attributes:
        plan: what to check.
        results: what was found so far.
        planned: number of checks of the whole run.
        complete: whether everything planned was checked.
    """

    plan: Plan
    results: list[Result] = field(default_factory=list[Result])
    planned: int = 0
    complete: bool = False
    _devices: list[engines.FoundDevice] = field(default_factory=list[engines.FoundDevice])
    _started: str = field(default_factory=environment.utc_now)
    _begun: float = field(default_factory=monotonic)

    def run(self, listener: Listener) -> None:
        """Check everything planned. A keyboard interrupt ends the run early and is not raised.

        Raises:
            UsageError: an unknown device.
        """
        tasks: list[engines.FuzzTask] = []
        if self.plan.fuzzing:
            self._devices = engines.find_devices(self.plan.device)
            tasks = engines.fuzz_tasks(self.plan.subjects, self._devices)
        proofs = len(self.plan.subjects) * len(engines.layout_statements()) if self.plan.proving else 0
        absent = engines.absent_devices(self._devices)
        self.planned = proofs + len(tasks) + len(absent)
        listener.planned(self.planned)
        try:
            for result in self._results(tasks, absent, listener):
                self.results.append(result)
                listener.finished(result)
            self.complete = True
        except KeyboardInterrupt:
            return

    def _results(
        self, tasks: Sequence[engines.FuzzTask], absent: Sequence[Result], listener: Listener
    ) -> Iterator[Result]:
        if self.plan.proving:
            listener.starting("proving")
            yield from engines.prove(self.plan.subjects)
        yield from absent
        deadline = monotonic() + self.plan.budget_seconds
        for place, task in enumerate(tasks):
            where = f" on {task.device}" if task.device else ""
            listener.starting(f"fuzzing {task.property_name}{where}, {task.subject}")
            yield task(fair_share(deadline - monotonic(), len(tasks) - place), self.plan.seed)

    @property
    def seconds(self) -> float:
        """Wall time since the run began."""
        return monotonic() - self._begun

    @property
    def verdicts(self) -> list[Verdict]:
        """The verdicts of all results."""
        return [result.verdict for result in self.results]

    @property
    def findings(self) -> list[Finding]:
        """All faults met, each once."""
        return list({finding.id: finding for result in self.results for finding in result.findings}.values())

    def record(self) -> Record:
        """The run as a record."""
        return Record(
            started=self._started,
            command=self.plan.command,
            results=tuple(self.results),
            seconds=round(self.seconds, 3),
            complete=self.complete,
            seed=self.plan.seed if self.plan.fuzzing else None,
            commit=environment.commit(),
            machine=environment.machine(),
            versions=environment.versions(),
            devices=tuple(
                DeviceNote(found.name, found.availability.available, found.availability.detail)
                for found in self._devices
            ),
        )


def fair_share(left_seconds: float, tasks_left: int) -> float:
    """Time for the next task: an equal part of what is left. What a task leaves over goes to all after it.

    Never nothing: a task that comes after the budget is spent gets a moment, in which it runs too few cases and
    says so itself.
    """
    return max(left_seconds / max(tasks_left, 1), 0.05)
