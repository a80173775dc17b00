"""A real history: the suite of today over versions of this repository and of a production one.

    python tests/bench/real_history.py plan --trees DIR builtin atom:CHECKOUT
    python tests/bench/real_history.py run --trees DIR --kind offline --kind gpu --out runs.jsonl
    kvproof history import runs.jsonl --history HISTORY
    python tests/bench/real_history.py table --history HISTORY --write

The folder of trees holds all that is needed, so that a machine with a GPU needs no git. Each version's kernels are
checked before they are measured. ``TARGET@REV`` is one version; a target alone stands for those listed here.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import secrets
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from kvproof.harness.bench.suite import Request
from kvproof.harness.bench.versions import OLDER, Version, assemble, checkout, describe, measure
from kvproof.harness.cli.measuring import have_gpu
from kvproof.harness.targets.revisions import unpack
from kvproof.kernels.registry import all_kernels
from kvproof.reports import environment
from kvproof.reports.errors import ReportError
from kvproof.reports.history.run import Missing, Run, run_text
from kvproof.reports.history.series import TIME, Timeline, timelines
from kvproof.reports.history.store import open_history
from kvproof.reports.store import write_atomically
from kvproof.reports.verdicts.compare import Change
from kvproof.reports.verdicts.regressions import Regression, regressions

VERSIONS = {
    "builtin": (
        "6e92bc7 a99fb95 5c99685 dfb6ff9 1293825 8138a5f 9b97f69 51cc3e8 9ae3251 14a6eb2 2aae3e1 "
        "d08c764 95bd58a 319b759 543f836 9c40d62"
    ),
    "atom": (
        "042e8f1c0 d4cfb0ff8 fbe26c475 8fe558611 c2d40e2dd 7229049cb 5d771f711 024ccc450 ba1961437 2551e4381 "
        "fdac0ab2a ffdf3bb5d"
    ),
}
"""Revisions by target, oldest first. Of this repository those whose specification today's engines can check,
without the half hour in which all cases of a kernel were made at once, which took tens of gigabytes."""

PAGE = Path("docs/performance.md")
BEGIN, END = "<!-- history: begin -->", "<!-- history: end -->"
MOST_STEPS = 16
SHARE = 0.03
"""Of a time between the first and the newest commit, what is shown."""
PLAN = "plan.json"
PRODUCTION = ("atom/model_ops/v4_kernels", "atom/model_ops/attentions", "atom/model_engine", "atom/utils")
"""What is unpacked of a production version: the modules that its profile loads, and their neighbours."""
SLOW_TO_FILL = ("attention_decode", "attention_prefill", "fused_compress", "split_attention", "slot_copy")
"""Not timed here: making the random inputs of these takes many times longer than timing them."""
GROUPS = 4
"""Parts of a version's kernels that are compiled at once."""


def spelled(targets: Sequence[str]) -> list[str]:
    """Every version that the arguments name."""
    found: list[str] = []
    for target in targets:
        kind = target.split(":")[0]
        found += [target] if "@" in target else [f"{target}@{revision}" for revision in VERSIONS[kind].split()]
    return found


def plan(targets: Sequence[str], trees: Path) -> None:
    """Put the sources of each version and what git knows of it into a folder."""
    found: list[dict[str, str]] = []
    for text in spelled(targets):
        kind, _, revision = text.partition("@")
        root = checkout() if kind == "builtin" else Path(kind.split(":", 1)[1])
        commit, parent, when, title = describe(root, revision)
        name = kind.split(":")[0]
        folder = trees / f"{name}-{commit[:12]}"
        if not folder.is_dir():
            folder.mkdir(parents=True)
            unpack(root, commit, OLDER if name == "builtin" else PRODUCTION, folder)
        known = {"commit": commit, "parent": parent, "committed": when, "title": title}
        found.append({"target": name, "folder": folder.name, **known})
    text = json.dumps({"kvproof": environment.commit(), "versions": found}, indent=1)
    write_atomically(trees / PLAN, text)
    print(f"{len(found)} versions in {trees}")


@dataclass
class Work:
    """What is measured, and how.

    Attributes:
        trees: folder that :func:`plan` filled; packages are assembled in ``scratch``.
        seconds: nothing is begun after so long.
        check: seconds for checking a kernel.
        cases: of a kernel on a GPU.
        jobs: processes at once that compile.
    """

    trees: Path
    scratch: Path
    seconds: float
    check: float
    cases: int
    jobs: int
    begun: float = field(default_factory=time.monotonic)

    @property
    def spent(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() - self.begun > self.seconds


def run(work: Work, kinds: Sequence[str], out: Path, only: Sequence[str]) -> None:
    """Measure every version of the folder; what no time is left for is NOT_RUN in its run."""
    read = json.loads((work.trees / PLAN).read_text(encoding="utf-8"))
    names = [name for name in all_kernels() if not only or name in only]
    lines: list[str] = []
    writing = Lock()

    def keep(found: Run) -> None:
        with writing:
            lines.append(run_text(dataclasses.replace(found, kvproof=read["kvproof"])))
            # After each version: what comes later may be cut off.
            write_atomically(out, "".join(lines))
        checks = dict(Counter(item.check for item in (*found.times, *found.counts)))
        lacks = Counter(m.reason[:60] for m in found.missing).most_common(2)
        spent = time.monotonic() - work.begun
        print(f"{spent:.0f} s {found.device} {found.target}@{found.commit[:9]}: {checks} {lacks}", flush=True)

    with ThreadPoolExecutor(work.jobs + 1) as pool:
        waiting: list[tuple[Version, list[tuple[list[str], Future[Run]]]]] = []
        ahead = []
        versions = [_unpacked(item, work) for item in read["versions"]]
        here, detail = have_gpu()
        if "gpu" in kinds and not here:
            print(f"NOT_RUN gpu: {detail}")
        elif "gpu" in kinds:
            ahead.append(pool.submit(_gpu, work, versions[::-1], names, keep))
        if "offline" in kinds:
            for version in versions:
                groups = [names[i::GROUPS] for i in range(GROUPS)]
                futures = [(group, pool.submit(_offline, work, version, group)) for group in groups]
                waiting.append((version, futures))
        for version, futures in waiting:
            keep(_joined(version, futures))
        for future in ahead:
            future.result()


def _offline(work: Work, version: Version, names: list[str]) -> Run:
    if work.spent:
        raise ReportError(f"{work.seconds:g} s were spent")
    answer = work.scratch / f"{secrets.token_hex(8)}.json"
    kept = work.scratch / "listings"
    kept.mkdir(parents=True, exist_ok=True)
    request = Request("offline", str(answer), kernels=names, check_seconds=work.check, kept=str(kept))
    return measure(version, request)


def _joined(version: Version, futures: Sequence[tuple[list[str], Future[Run]]]) -> Run:
    """One run of the parts of a version's kernels."""
    parts: list[Run] = []
    lacking: list[Missing] = []
    for names, future in futures:
        try:
            parts.append(future.result())
        except ReportError as error:
            lacking += [Missing(name, "NOT_RUN", str(error)[-300:]) for name in names]
    first = parts[0] if parts else Run(environment.utc_now(), version.target, version.commit)
    return dataclasses.replace(
        first,
        counts=tuple(sorted((c for part in parts for c in part.counts), key=lambda c: (c.name, c.on))),
        missing=(*(m for part in parts for m in part.missing), *lacking),
    )


def _gpu(work: Work, versions: Sequence[Version], names: Sequence[str], keep: Callable[[Run], None]) -> None:
    """Times of all versions, one after the other, the newest first: the oldest may not fit into the time."""
    ceilings: dict[str, float] = {}
    answer = work.scratch / "gpu.json"
    for version in versions:
        label = f"gpu {version.target}@{version.commit[:9]}"
        if work.spent:
            print(f"NOT_RUN {label}: {work.seconds:g} s were spent", flush=True)
            continue
        request = Request(
            "gpu",
            str(answer),
            kernels=[name for name in names if name not in SLOW_TO_FILL],
            cases=work.cases,
            check_seconds=work.check,
            one_case=True,
            ceilings=ceilings,
        )
        try:
            keep(measure(version, request))
        except ReportError as error:
            print(f"{label}: {str(error)[-300:]}", flush=True)
            continue
        ceilings = json.loads(answer.read_text(encoding="utf-8"))["ceilings"]


def _unpacked(item: Mapping[str, str], work: Work) -> Version:
    folder = (work.trees / item["folder"]).resolve()
    known = Version(item["target"], item["commit"], item["parent"], item["committed"], item["title"])
    if item["target"] == "builtin":
        into = work.scratch / item["folder"]
        if not into.is_dir():
            shutil.copytree(folder, into)
        return dataclasses.replace(known, source=assemble(checkout(), into))
    spec = {"kind": item["target"], "root": str(folder), "revision": item["commit"], "origin": item["target"]}
    return dataclasses.replace(known, spec=spec)


def table(history: str) -> list[str]:
    """Markdown: what was measured of each version, and what changed."""
    runs = list(open_history(history).runs())
    lines: list[str] = []
    for line in timelines(runs):
        own = [run for run in runs if run.target == line.target]
        lines += [*_versions(line, own), "", *_steps(regressions(line)), "", *_moved(line), ""]
    return lines[:-1]


def _versions(line: Timeline, runs: Sequence[Run]) -> list[str]:
    """A row a commit."""
    head = "kernels | numbers of compiled code | checks | times on a GPU | checks | not measured"
    lines = [f"| {line.target} | first line of its message | {head} |", "|---|---|---:|---:|---|---:|---|---|"]
    for commit in line.commits:
        of = [run for run in runs if run.commit == commit.commit]
        counts = [c for run in of for c in run.counts if "instructions" in c.values]
        timed = [t for run in of for t in run.times]
        kernels = {item.name.split("/")[0] for item in (*counts, *timed)}
        lacking = {m.reason.split(":")[0][:50]: m for run in of for m in run.missing}
        cells = [
            f"`{commit.short}`",
            commit.title[:60].replace("|", "/"),
            str(len(kernels)),
            f"{sum(len(c.values) for c in counts):,}",
            _checks([c.check for c in counts]),
            str(len(timed)),
            _checks([t.check for t in timed]),
            "; ".join(
                f"{sum(m.reason.startswith(why) for run in of for m in run.missing)} {why}" for why in lacking
            ),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _checks(found: Sequence[str]) -> str:
    return ", ".join(f"{count} {word}" for word, count in Counter(found).most_common())


def _steps(steps: Sequence[Regression]) -> list[str]:
    """The largest changes of instructions, registers and times, one a kernel, device and commit."""
    shown: dict[tuple[str, ...], Regression] = {}
    for step in sorted(steps, key=lambda step: -abs(step.ratio)):
        if step.change in (Change.SLOWER, Change.FASTER):
            key = (step.series.kernel, step.series.on, step.series.metric, step.bad.commit)
            shown.setdefault(key, step)
    words = Counter(str(step.change) for step in steps)
    counted = ", ".join(f"{count} {word}" for word, count in sorted(words.items())) or "none"
    if not shown:
        return [f"Steps: {counted}."]
    lines = [f"Steps: {counted}. The largest of each kernel, metric and commit:", ""]
    lines += ["| series | on | metric | before | after | change | between |", "|---|---|---|---:|---:|---:|---|"]
    lines += [
        f"| {s.series.name} | {s.series.on} | {s.series.metric} | {s.before:,.6g} | {s.after:,.6g} | {s.amount} "
        f"| `{s.good.short}..{s.bad.short}` |"
        for s in list(shown.values())[:MOST_STEPS]
    ]
    return lines


def _moved(line: Timeline) -> list[str]:
    """Times on a GPU that differ most between the first and the newest commit that they were measured of."""
    found = [
        (series, first, last)
        for series in line.series
        if series.metric == TIME and len(series.points) > 1
        for first, last in [(series.points[0], series.points[-1])]
        if first.segment == last.segment and "host" not in first.segment.split("; ")
    ]
    found.sort(key=lambda item: -abs(math.log(item[2].value / item[1].value)))
    moved = [item for item in found if abs(item[2].value / item[1].value - 1) >= SHARE]
    many = f"{len(moved)} of {len(found)} times on a GPU differ by {SHARE:.0%} or more"
    if not moved:
        return [f"{many} between the first and the newest commit that they were measured of."]
    lines = [f"{many} between the first and the newest commit that they were measured of:", ""]
    lines += ["| series | on | first, us | newest, us | change | share of peak | between |"]
    lines += ["|---|---|---:|---:|---:|---:|---|"]
    for series, first, last in moved[:MOST_STEPS]:
        between = "..".join(line.commits[point.place].short for point in (first, last))
        share = f"{last.bound / last.value:.0%}" if last.bound else "not measured"
        lines.append(
            f"| {series.name} | {series.on} | {first.value:,.4g} | {last.value:,.4g} "
            f"| {last.value / first.value - 1:+.1%} | {share} | `{between}` |"
        )
    return lines


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one, two = commands.add_parser("plan"), commands.add_parser("run")
    for each in (one, two):
        each.add_argument("--trees", type=Path, required=True)
    one.add_argument("target", nargs="+")
    two.add_argument("--kind", action="append", choices=("offline", "gpu"), required=True)
    two.add_argument("--out", type=Path, required=True)
    two.add_argument("--seconds", type=float, default=36000.0)
    two.add_argument("--check", type=float, default=40.0)
    two.add_argument("--cases", type=int, default=2)
    two.add_argument("--jobs", type=int, default=1)
    two.add_argument("--kernel", action="append", default=[])
    three = commands.add_parser("table")
    three.add_argument("--history", required=True)
    three.add_argument("--write", action="store_true", help=f"into {PAGE}")
    given = parser.parse_args()
    if given.command == "plan":
        plan(given.target, given.trees)
    elif given.command == "run":
        with tempfile.TemporaryDirectory() as folder:
            work = Work(given.trees, Path(folder), given.seconds, given.check, given.cases, given.jobs)
            run(work, given.kind, given.out, given.kernel)
    else:
        text = "\n".join(table(given.history))
        print(text)
        if given.write:
            page = PAGE.read_text(encoding="utf-8")
            before, _, rest = page.partition(BEGIN)
            _, _, after = rest.partition(END)
            write_atomically(PAGE, f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
