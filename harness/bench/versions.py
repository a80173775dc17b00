"""Versions of a target, and the suite run over one of them in a process of its own."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import kvproof
from kvproof.harness.bench.suite import Request
from kvproof.harness.targets import revisions
from kvproof.models.errors import LayoutError
from kvproof.reports import environment
from kvproof.reports.errors import ReportError
from kvproof.reports.history.run import Counts, Missing, Run, Times

FORMAT = "%H%x09%P%x09%ct%x09%s"
OLDER = ("models", "kernels", "properties")
"""Folders that come from the version that is measured; the engines that measure are always today's."""

TIMEOUT = 3600.0


@dataclass(frozen=True)
class Version:
    """A version of a target, ready to be measured.

    Attributes:
        target: "builtin", or the name of the project.
        commit, parent, committed, title: as in a run.
        spec: for the suite; empty for this project's own kernels.
        source: folder to import kvproof from; None for the one that runs.
    """

    target: str
    commit: str
    parent: str = ""
    committed: str = ""
    title: str = ""
    spec: Mapping[str, Any] = field(default_factory=dict[str, Any])
    source: Path | None = None


def checkout() -> Path:
    """The folder that this kvproof lies in."""
    return Path(kvproof.__file__).resolve().parents[2]


def git(repository: Path, *arguments: str) -> str:
    """What git prints.

    Raises:
        ReportError: git is not here, or refuses.
    """
    try:
        return revisions.git(repository, *arguments).decode(errors="replace").strip()
    except LayoutError as error:
        raise ReportError(str(error)) from error


def describe(repository: Path, revision: str) -> tuple[str, str, str, str]:
    """(commit, first parent, when in UTC, first line) of a revision.

    Raises:
        ReportError: no such revision.
    """
    said = git(repository, "log", "-1", f"--format={FORMAT}", "--end-of-options", revision, "--")
    if not said:
        raise ReportError(f"{repository} has no revision {revision!r}")
    commit, parents, seconds, title = said.split("\t", 3)
    when = datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return commit, parents.split(" ")[0], when, title


def open_version(text: str, scratch: Path) -> Version:
    """The version that a ``--target`` value names: "builtin", "builtin@REV", "atom:PATH", "atom:PATH@REV".

    Args:
        text: the value.
        scratch: folder that revisions are unpacked into.

    Raises:
        ReportError: no such revision.
        LayoutError: no such target or folder.
    """
    name, _, revision = text.partition("@")
    if name == "builtin":
        return _builtin(revision, scratch)
    from kvproof.harness.targets.revisions import open_target  # noqa: PLC0415
    from kvproof.harness.targets.spec import parse_target  # noqa: PLC0415

    kind, path, revision = parse_target(text)
    spec = open_target(text, scratch)
    label = Path(kind).stem if kind.endswith(".toml") else kind
    repository = Path(path or spec.root)
    try:
        commit, parent, when, title = describe(repository, revision or "HEAD")
    except ReportError:
        if revision:
            raise
        return Version(label, "", spec=spec.to_json())
    dirty = "+dirty" if not revision and git(repository, "status", "--porcelain", "--untracked-files=no") else ""
    return Version(label, commit + dirty, parent, when, title, spec.to_json())


def _builtin(revision: str, scratch: Path) -> Version:
    root = checkout()
    if not revision:
        commit = environment.commit()
        known = describe(root, "HEAD") if commit else ("", "", "", "")
        return Version("builtin", commit, *known[1:])
    known = describe(root, revision)
    return Version("builtin", *known, source=compose(root, known[0], scratch / f"builtin-{known[0][:12]}"))


def compose(root: Path, commit: str, into: Path) -> Path:
    """A package tree with a commit's kernels, models and strategies, and the engines of today.

    Returns:
        The folder to import kvproof from.

    Raises:
        ReportError: git refuses.
    """
    if not (into / "src").is_dir():
        from kvproof.harness.targets.revisions import unpack  # noqa: PLC0415

        into.mkdir(parents=True)
        try:
            unpack(root, commit, OLDER, into)
        except LayoutError as error:
            raise ReportError(str(error)) from error
    return assemble(root, into)


def assemble(root: Path, into: Path) -> Path:
    """A package of a folder's own kernels, models and properties, and of the engines of ``root``.

    Returns:
        The folder to import kvproof from.
    """
    if (into / "src").is_dir():
        return into / "src"
    package = into / "src.part" / "kvproof"
    package.mkdir(parents=True)
    for file in (root / "src" / "kvproof").glob("*.py"):
        shutil.copy2(file, package / file.name)
    for folder in ("models", "kernels", "properties", "harness", "reports"):
        (package / folder).symlink_to(((into if folder in OLDER else root) / folder).resolve())
    package.parent.rename(into / "src")
    return into / "src"


def measure(version: Version, request: Request) -> Run:
    """Run the suite over a version, in a process of its own, and make a run of what it found.

    Raises:
        ReportError: the process died or hung.
    """
    started = environment.utc_now()
    given = dataclasses.replace(request, target=version.spec)
    paths = [str(version.source)] if version.source else [path for path in sys.path if path]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "kvproof.harness.bench.suite"],
            input=json.dumps(dataclasses.asdict(given)),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONHASHSEED": "0"},
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ReportError(f"measuring {version.target} {version.commit[:12]} took over {TIMEOUT:g} s") from None
    if done.returncode:
        last = done.stderr.strip().splitlines()[-3:]
        raise ReportError(f"measuring {version.target} {version.commit[:12]} failed: {' / '.join(last)}")
    answer = json.loads(Path(request.out).read_text(encoding="utf-8"))
    device, driver = _device(request.kind)
    measured = [_times(item) for item in answer["times"]]
    # One that a history would refuse must not cost the rest of the run.
    unusable = (Missing(times.name, "UNKNOWN", times.fault) for times in measured if times.fault)
    return Run(
        started=started,
        target=version.target,
        commit=version.commit,
        parent=version.parent,
        committed=version.committed,
        title=version.title,
        kvproof=environment.commit(),
        machine={**environment.machine(), **{name: f"{rate:.4g}" for name, rate in answer["ceilings"].items()}},
        device=device,
        driver=driver,
        versions=environment.versions(),
        times=tuple(times for times in measured if not times.fault),
        counts=tuple(Counts(**item) for item in answer["counts"]),
        missing=(*(Missing(**item) for item in answer["missing"]), *unusable),
    )


def _times(item: Mapping[str, Any]) -> Times:
    batches = tuple(tuple(batch) for batch in item["batches"])
    return Times(**{**item, "batches": batches, "mhz": tuple(item["mhz"]), "celsius": tuple(item["celsius"])})


def _device(kind: str) -> tuple[str, str]:
    """(name, driver) of what ran."""
    if kind != "gpu":
        return kind, ""
    import torch  # noqa: PLC0415  (an optional package)

    driver = ""
    if not torch.version.hip:
        done = subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],  # noqa: S607
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        driver = done.stdout.strip().splitlines()[0] if done.returncode == 0 else ""
    return torch.cuda.get_device_name(), driver
