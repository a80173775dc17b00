"""One run of ``verify``, ``prove`` or ``fuzz``: what is checked, in which order and time, and the record of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Protocol

from kvproof.harness.cli import engines
from kvproof.harness.cli.proving import EVERYTHING_ANEW, ProofChoice
from kvproof.harness.cli.systems import SYSTEMS, statements_of
from kvproof.harness.cli.workers import run_tasks
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
        systems: "row-space", "schema", "scratch".
        proving, fuzzing: the halves to run.
        any_layout: whether freely drawn layouts are fuzzed too.
        device: "auto" or a device name.
        budget_seconds: time for the whole fuzz half.
        seed: seed of everything drawn.
        proofs: how to prove.
    """

    command: tuple[str, ...]
    subjects: tuple[ModelConfig, ...]
    proving: bool
    fuzzing: bool
    any_layout: bool = False
    systems: tuple[str, ...] = tuple(SYSTEMS)
    device: str = "auto"
    budget_seconds: float = 60.0
    seed: int = 0
    proofs: ProofChoice = EVERYTHING_ANEW


class Listener(Protocol):
    """Is told how a run goes on."""

    def planned(self, checks: int) -> None:
        """So many checks will be made."""
        ...

    def starting(self, what: str) -> None:
        """A check begins, or a group of them."""
        ...

    def doing(self, what: str) -> None:
        """What is being done just now, told again and again."""
        ...

    def finished(self, result: Result, checks: int) -> None:
        """There is a result, for the first time or a newer one; so many checks have one now."""
        ...


@dataclass
class Campaign:
    """A run under way. :meth:`run` may be interrupted at any time; what it had found is kept.

    Attributes:
        plan: what to check.
        planned: number of checks of the whole run.
        complete: whether everything planned was checked.
    """

    plan: Plan
    planned: int = 0
    complete: bool = False
    _found: dict[tuple[str, ...], Result] = field(default_factory=dict[tuple[str, ...], Result])
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
            tasks = engines.fuzz_tasks(
                self.plan.subjects, self._devices, any_layout=self.plan.any_layout, systems=self.plan.systems
            )
        planned = (
            engines.planned_proofs(self.plan.subjects, self.plan.systems, self.plan.proofs)
            if self.plan.proving
            else []
        )
        absent = engines.absent_devices(self._devices)
        self.planned = len(planned) + len(tasks) + len(absent)
        listener.planned(self.planned)
        try:
            for result in self._results(tasks, absent, listener):
                self._found[result.engine, result.subject, result.property_name, result.device] = result
                listener.finished(result, len(self._found))
            self.complete = True
        except KeyboardInterrupt:
            return

    def _results(
        self, tasks: Sequence[engines.FuzzTask], absent: Sequence[Result], listener: Listener
    ) -> Iterator[Result]:
        if self.plan.proving:
            listener.starting("proving")
            yield from engines.prove(self.plan.subjects, self.plan.systems, self.plan.proofs, listener.doing)
        yield from absent
        if tasks:
            listener.starting("fuzzing")
            for _, result in run_tasks(tasks, self.plan.budget_seconds, self.plan.seed):
                yield result

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

    @property
    def results(self) -> tuple[Result, ...]:
        """What was found so far, by subject and property in planned order; workers end in any."""
        subjects = [subject.name for subject in self.plan.subjects]
        properties = [statement.name for system in self.plan.systems for statement in statements_of(system)]

        def place(names: Sequence[str], name: str) -> tuple[int, str]:
            return (names.index(name), "") if name in names else (len(names), name)

        def key(result: Result) -> tuple[object, ...]:
            proved = result.engine != "fuzz"
            return (
                place(subjects, result.subject),
                place(properties, result.property_name),
                not proved,
                result.device,
            )

        return tuple(sorted(self._found.values(), key=key))

    def record(self) -> Record:
        """The run as a record."""
        return Record(
            started=self._started,
            command=self.plan.command,
            results=self.results,
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
