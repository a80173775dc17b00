"""A target over time: its commits one after the other, or two of them side by side."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kvproof.harness.check.codec import case_from_json
from kvproof.harness.check.differential import BadCaseError, CaseFailed, check_case
from kvproof.harness.run.commit_contents import content_hash, imports_hash
from kvproof.harness.run.target_campaign import ContractReport, TargetCampaign
from kvproof.harness.run.trial import cause_of
from kvproof.harness.targets.contracts import all_contracts, all_properties
from kvproof.harness.targets.device import IsolatedDevice, NoWorkerError
from kvproof.harness.targets.revisions import Commit, history, resolve_revision, unpack
from kvproof.harness.targets.spec import TargetSpec
from kvproof.models.errors import LayoutError
from kvproof.reports.finding import Finding

FAST_CASES = 60
"""Cases of one run of a contract at one commit."""


@dataclass(frozen=True)
class Depth:
    """How deep one commit is looked into.

    Attributes:
        device: device name.
        seconds: for the cases of one contract, all runs together.
        cases: of each run of a contract, at most.
        seed: of everything drawn, the same for all commits.
        causes: of one run of a contract, at most.
        shrink_seconds: for making one finding small.
        arch: GPU that kernels are compiled for when their offsets are looked at.
    """

    device: str = "ir"
    seconds: float = 6.0
    cases: int = FAST_CASES
    seed: int = 0
    causes: int = 3
    shrink_seconds: float = 1.0
    arch: str = "cuda:90"


@dataclass
class Snapshot:
    """What is known of one commit.

    Attributes:
        commit: the commit.
        reports: of each contract, by name.
        causes: (contract, cause) -> finding.
        narrow: (kernel, argument, factors) of each element offset in 32 bits -> "file:line".
        ir: kernel -> hash of its IR.
        problems: kernels that did not compile.
        era: of the layout, as the profile's entries name it.
        failed: why nothing could be run.
    """

    commit: Commit
    reports: dict[str, ContractReport] = field(default_factory=dict[str, ContractReport])
    causes: dict[tuple[str, str], Finding] = field(default_factory=dict[tuple[str, str], Finding])
    narrow: dict[tuple[str, str, str], str] = field(default_factory=dict[tuple[str, str, str], str])
    ir: dict[str, str] = field(default_factory=dict[str, str])
    problems: dict[str, str] = field(default_factory=dict[str, str])
    era: str = ""
    failed: str = ""

    @property
    def mapped(self) -> list[str]:
        """Contracts that the commit offers a function for."""
        return [name for name, report in self.reports.items() if report.function]


class Examiner:
    """Looks into commits of one target. What a commit has left as it was is not looked into again.

    Args:
        kind: the target's profile.
        repository: its repository.
        depth: how deep.
        keep: told each finding.
        done: snapshots of commits that an earlier run has looked into, by revision.
    """

    def __init__(
        self,
        kind: str,
        repository: Path,
        depth: Depth,
        keep: Callable[[Finding], object],
        done: Mapping[str, Snapshot] | None = None,
    ) -> None:
        profile = TargetSpec(kind).profile()
        if profile is None:
            raise LayoutError("a history needs a target with a repository; allowed: NAME:PATH")
        self.kind, self.repository, self.depth, self.keep = kind, repository, depth, keep
        self.profile = profile
        self._done = done or {}
        self._known: dict[str, Snapshot] = {}
        self._reports: dict[tuple[str, str], ContractReport] = {}

    def examine(self, commit: Commit, scratch: Path) -> Snapshot:
        """One commit."""
        folder = scratch / commit.revision[:12]
        folder.mkdir(parents=True, exist_ok=True)
        try:
            unpack(self.repository, commit.revision, [self.profile.marker], folder)
        except LayoutError as error:
            return Snapshot(commit, failed=str(error))
        if commit.revision in self._done:
            return replace(self._done[commit.revision], commit=commit)
        key = content_hash(folder, self.profile.relevant)
        known = self._known.get(key)
        if known is not None:
            return replace(known, commit=commit, causes=dict(known.causes))
        with self._device(commit, scratch) as device:
            snapshot = self._look(commit, device)
        self._known[key] = snapshot
        return snapshot

    @contextmanager
    def _device(self, commit: Commit, scratch: Path) -> Iterator[IsolatedDevice]:
        """A worker for a commit that is unpacked."""
        short = commit.revision[:12]
        device = IsolatedDevice(
            TargetSpec(self.kind, str(scratch / short), short, str(self.repository)), self.depth.device
        )
        try:
            yield device
        finally:
            device.close()

    def settle(self, seen: Sequence[Snapshot], scratch: Path) -> None:
        """Run causes that the last commit and those before it do not share on the other side.

        A cause that only chance in drawing has not met there is added to that commit.
        """
        *earlier, last = seen
        if last.failed or not earlier:
            return
        before = earlier[-1]
        self._carry(last, {key: f for key, f in before.causes.items() if key not in last.causes}, before, scratch)
        new = {key: finding for key, finding in last.causes.items() if key not in before.causes}
        after = last
        for snapshot in reversed(earlier):
            # As far back as it shows.
            new = self._carry(snapshot, new, after, scratch)
            after = snapshot
            if not new:
                return

    def _carry(
        self, to: Snapshot, causes: Mapping[tuple[str, str], Finding], other: Snapshot, scratch: Path
    ) -> dict[tuple[str, str], Finding]:
        """Add those causes to a commit that show there as well; gives them."""
        shown = {
            key: finding
            for key, finding in causes.items()
            if key[0] in to.mapped and to.reports[key[0]] is other.reports.get(key[0])
        }
        left = {key: f for key, f in causes.items() if key[0] in to.mapped and key not in shown}
        left = {key: finding for key, finding in left.items() if key not in to.causes}
        if left and not to.failed:
            with self._device(to.commit, scratch) as device:
                shown |= {key: f for key, f in left.items() if _outcome(key[0], f, device) == key[1]}
        added = {key: finding for key, finding in shown.items() if key not in to.causes}
        to.causes.update(added)
        return added

    def _look(self, commit: Commit, device: IsolatedDevice) -> Snapshot:
        found = device.probe()
        if not found.available:
            return Snapshot(commit, failed=found.detail)
        snapshot = Snapshot(commit)
        wanted = [name for name in all_properties() if self.profile.entries_of(name)]
        root = Path(device.target.root)
        keys = {
            name: imports_hash(root, about["function"].split(":")[0], self.profile)
            for name, about in device.offered().items()
        }
        unknown = [name for name in wanted if name not in keys or (name, keys[name]) not in self._reports]
        live = [name for name in unknown if name in keys]
        campaign = TargetCampaign(
            device,
            budget_seconds=self.depth.seconds * max(len(live), 1),
            seed=self.depth.seed,
            contracts=unknown,
            case_target=self.depth.cases,
            most_causes=self.depth.causes,
            shrink_seconds=self.depth.shrink_seconds,
        )
        found_now = {report.contract: report for report in campaign.run(self.keep)} if unknown else {}
        for name in wanted:
            report = found_now.get(name) or self._reports[name, keys[name]]
            if name in keys:
                self._reports[name, keys[name]] = report
            snapshot.reports[name] = report
            for run in report.runs:
                for group in run.groups:
                    snapshot.causes.setdefault((name, group.cause), group.finding)
        eras = [report.era for report in snapshot.reports.values() if report.era]
        snapshot.era = max(set(eras), key=eras.count) if eras else ""
        try:
            # As their parameters' names suggest: which specialisations cases have launched is chance.
            wanted_ir = {"archs": [self.depth.arch], "kind": "by name"}
            rows: list[Mapping[str, Any]] = device.worker.ask("offsets", wanted_ir, 300)
        except Exception as error:  # a worker that dies here costs this part of one commit
            snapshot.problems["all kernels"] = str(error)
            return snapshot
        for row in rows:
            if row["problem"]:
                snapshot.problems[row["kernel"]] = row["problem"]
                continue
            snapshot.ir[row["kernel"]] = row["ir"]
            for offset in row["offsets"]:
                place = f"{offset['file']}:{offset['line']}"
                snapshot.narrow.setdefault((row["kernel"], offset["argument"], offset["factors"]), place)
        return snapshot


def sweep(
    kind: str,
    repository: Path,
    since: str,
    until: str,
    depth: Depth,
    keep: Callable[[Finding], object],
    scratch: Path,
    done: Mapping[str, Snapshot] | None = None,
) -> Iterator[Snapshot]:
    """Snapshots of the commits that changed something relevant, oldest first, after one of their parent.

    A cause that one of them alone has met is run on the others, so earlier ones may still get causes.

    Args:
        kind: the target's profile.
        repository: its repository.
        since: date or revision; commits after it.
        until: last revision.
        depth: how deep.
        keep: told each finding.
        scratch: folder for unpacked commits.
        done: snapshots of commits that are not to be looked into again, by revision.

    Raises:
        LayoutError: no such revision, or a target without a repository.
    """
    examiner = Examiner(kind, repository, depth, keep, done)
    commits = history(repository, since, until, examiner.profile.relevant)
    if commits:
        before = resolve_revision(repository, f"{commits[0].revision}^")
        commits = [Commit(before, "", "before"), *commits]
    seen: list[Snapshot] = []
    for commit in commits:
        seen.append(examiner.examine(commit, scratch))
        examiner.settle(seen, scratch)
        yield seen[-1]


# ---- two commits --------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """How one contract or kernel differs between two commits.

    Attributes:
        subject: contract, or kernel.
        words: what differs.
        finding: the input that shows it, where there is one.
    """

    subject: str
    words: str
    finding: Finding | None = None


def compare(
    kind: str,
    places: tuple[tuple[Path, str], tuple[Path, str]],
    depth: Depth,
    keep: Callable[[Finding], object],
) -> Iterator[Difference]:
    """Which contracts behave differently, on what input, and which kernels' IR differs.

    A finding of one side is run on the other, so that chance in drawing is no difference.

    Args:
        kind: the target's profile.
        places: (repository, revision) of each side.
        depth: how deep.
        keep: told each finding.

    Raises:
        LayoutError: no such revision.
    """
    with tempfile.TemporaryDirectory(prefix="kvproof-") as folder:
        sides: list[Snapshot] = []
        for path, revision in places:
            full = resolve_revision(path, revision)
            examiner = Examiner(kind, path, depth, keep)
            sides.append(examiner.examine(Commit(full, "", revision), Path(folder)))
        first, second = sides
        for side in sides:
            if side.failed:
                yield Difference(side.commit.title, f"could not be run: {side.failed}")
        yield from _offers(first, second)
        for here, there, other in ((first, second, 1), (second, first, 0)):
            path = places[other][0]
            spec = TargetSpec(
                kind, str(Path(folder) / there.commit.revision[:12]), there.commit.revision[:12], str(path)
            )
            yield from _behaviour(here, there, IsolatedDevice(spec, depth.device))
        yield from _kernels(first, second)


def _offers(first: Snapshot, second: Snapshot) -> Iterator[Difference]:
    for name in dict.fromkeys([*first.reports, *second.reports]):
        before, after = first.reports.get(name), second.reports.get(name)
        if before is None or after is None or bool(before.function) == bool(after.function):
            continue
        side = second if after.function else first
        reason = (before if after.function else after).reason
        yield Difference(name, f"offered by {side.commit.title} alone; the other: {reason}")


def _behaviour(here: Snapshot, there: Snapshot, device: IsolatedDevice) -> Iterator[Difference]:
    """Causes of one side that the other does not show on the same input."""
    try:
        for (name, cause), finding in here.causes.items():
            if name not in there.mapped or (name, cause) in there.causes:
                continue
            now = _outcome(name, finding, device)
            if now != cause:
                titles = here.commit.title, there.commit.title
                words = f"with {titles[0]}: {finding.message}; with {titles[1]}: {now or 'as expected'}"
                yield Difference(name, words, finding)
    finally:
        device.close()


def _outcome(name: str, finding: Finding, device: IsolatedDevice) -> str:
    kernel, prop = all_contracts()[name], all_properties()[name]
    try:
        check_case(kernel, device, case_from_json(finding.case["launch"]), prop.explain)
    except CaseFailed as failure:
        return cause_of(failure)
    except (BadCaseError, NoWorkerError) as error:
        return str(error)
    return ""


def _kernels(first: Snapshot, second: Snapshot) -> Iterator[Difference]:
    for kernel in sorted({*first.ir, *second.ir}):
        before, after = first.ir.get(kernel), second.ir.get(kernel)
        if before == after:
            continue
        if before is None or after is None:
            side = second if before is None else first
            yield Difference(kernel, f"compiled with {side.commit.title} alone")
            continue
        gone, new = (
            [
                f"{k[1]}: {k[2]} ({place})"
                for k, place in one.narrow.items()
                if k[0] == kernel and k not in other.narrow
            ]
            for one, other in ((first, second), (second, first))
        )
        words = f"its IR differs ({before} and {after})"
        if gone:
            words += f"; no longer in 32 bits: {', '.join(gone)}"
        if new:
            words += f"; now in 32 bits: {', '.join(new)}"
        yield Difference(kernel, words)
