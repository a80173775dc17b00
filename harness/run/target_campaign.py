"""All contracts of a target on one device: first as its callers use it, then with what the contract tolerates."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from kvproof.harness.run.targets import MOST_CAUSES, TargetRun, fuzz_target
from kvproof.harness.targets.contracts import all_properties
from kvproof.harness.targets.device import IsolatedDevice
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.reports.finding import Finding
from kvproof.reports.record import DeviceNote, Record
from kvproof.reports.result import Result
from kvproof.reports.verdict import Status, Verdict

CALLERS = "as called"
BEYOND = "and tolerated input"
"""Subjects of the two runs of a contract."""

Keep = Callable[[Finding], object]
"""Told each finding as soon as it is there, so that nothing is lost of a run that does not come to its end."""


@dataclass
class ContractReport:
    """What is known of one contract on a target.

    Attributes:
        contract: its name.
        function: the target's function; empty if none is offered.
        reason: why none is.
        notes: how an older signature was adapted.
        era: of the target's layout.
        runs: the run as called, and the run with tolerated input.
    """

    contract: str
    function: str = ""
    reason: str = ""
    notes: tuple[str, ...] = ()
    era: str = ""
    runs: list[TargetRun] = field(default_factory=list[TargetRun])

    @property
    def results(self) -> list[Result]:
        """Results for the record."""
        if self.runs:
            return [run.result for run in self.runs]
        return [Result("target", self.contract, "fuzz", Verdict(Status.UNSUPPORTED, self.reason), 0.0)]


@dataclass
class TargetCampaign:
    """A run over a target's contracts.

    Attributes:
        device: the target's worker.
        budget_seconds: for all contracts together; shrinking comes on top.
        seed: of everything drawn.
        contracts: names; empty means all.
        subject: configuration whose layout the cases have.
        case_target: cases a run of a contract, at most.
        most_causes: causes of a contract, at most.
        shrink_seconds: for one finding.
        beyond: another worker of the target for what should not be passed, so that the first one lives through it.
        reports: of each contract so far.
    """

    device: IsolatedDevice
    budget_seconds: float = 60.0
    seed: int = 0
    contracts: Sequence[str] = ()
    subject: ModelConfig | None = None
    case_target: int | None = None
    most_causes: int = MOST_CAUSES
    shrink_seconds: float = 20.0
    beyond: IsolatedDevice | None = None
    reports: list[ContractReport] = field(default_factory=list[ContractReport])

    def run(self, keep: Keep) -> Iterator[ContractReport]:
        """Check contract by contract. A worker that dies costs the case that killed it."""
        wanted = list(self.contracts) or list(all_properties())
        found = self.device.probe()
        offered = self.device.offered() if found.available else {}
        reasons = self.device.not_offered() if found.available else dict.fromkeys(wanted, found.detail)
        live = [name for name in wanted if name in offered]
        share = self.budget_seconds / max(2 * len(live), 1)
        for name in wanted:
            about = offered.get(name)
            if about is None:
                report = ContractReport(name, reason=reasons.get(name, "the target offers nothing for it"))
            else:
                report = ContractReport(name, about["function"], "", tuple(about["notes"]), about["era"])
                for tolerated in (False, True):
                    run = fuzz_target(
                        name,
                        self.beyond if tolerated and self.beyond else self.device,
                        subject=self.subject,
                        budget_seconds=share,
                        seed=self.seed,
                        case_target=self.case_target,
                        most_causes=self.most_causes,
                        tolerated=tolerated,
                        shrink_seconds=self.shrink_seconds,
                    )
                    run.result = replace(run.result, subject=BEYOND if tolerated else CALLERS)
                    for finding in run.result.findings:
                        keep(finding)
                    report.runs.append(run)
            self.reports.append(report)
            yield report

    def record(self, command: Sequence[str], started: str, begun: float, *, complete: bool) -> Record:
        """The run as a record."""
        from kvproof.reports import environment  # noqa: PLC0415

        found = self.device.probe()
        label = self.device.target.label
        return Record(
            started=started,
            command=tuple(command),
            results=tuple(
                replace(result, target=label, device=self.device.name)
                for report in self.reports
                for result in report.results
            ),
            seconds=round(time.monotonic() - begun, 3),
            complete=complete,
            seed=self.seed,
            commit=environment.commit(),
            machine=environment.machine(),
            versions=environment.versions(),
            devices=(DeviceNote(self.device.name, found.available, found.detail),),
        )
