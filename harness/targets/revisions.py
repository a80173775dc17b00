"""Revisions of a checkout: which commits there are, and one of them unpacked into a folder."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kvproof.harness.targets.spec import BUILTIN, TargetSpec, parse_target
from kvproof.models.errors import LayoutError

GIT_SECONDS = 300.0


@dataclass(frozen=True)
class Commit:
    """One commit of a target.

    Attributes:
        revision: its full hash.
        date: when it was committed ("2026-08-11").
        title: first line of its message.
    """

    revision: str
    date: str
    title: str


def git(repository: Path, *arguments: str) -> bytes:
    """What a git command prints.

    Raises:
        LayoutError: git is not here, or refuses.
    """
    try:
        done = subprocess.run(  # noqa: S603  (a fixed program, arguments of the user's own command)
            ["git", "-C", str(repository), *arguments],  # noqa: S607
            check=False,
            capture_output=True,
            timeout=GIT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LayoutError(f"git in {repository}: {error}") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise LayoutError(f"git {arguments[0]} in {repository}: {said or f'status {done.returncode}'}")
    return done.stdout


def resolve_revision(repository: Path, revision: str) -> str:
    """Full hash of a revision.

    Raises:
        LayoutError: there is none.
    """
    found = git(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    return found.decode().strip()


def present_revision(folder: Path) -> str:
    """Short hash of the commit that a folder is a checkout of ("+dirty" with changes); empty if it is none."""
    try:
        top = git(folder, "rev-parse", "--show-toplevel").decode().strip()
        if Path(top).resolve() != folder.resolve():
            return ""
        revision = git(folder, "rev-parse", "HEAD").decode().strip()
        changed = git(folder, "status", "--porcelain", "--untracked-files=no").strip()
    except LayoutError:
        return ""
    return revision[:12] + ("+dirty" if changed else "")


def unpack(repository: Path, revision: str, paths: Sequence[str], into: Path) -> None:
    """Put a revision's files into a folder.

    Args:
        repository: the repository.
        revision: full hash.
        paths: only these, of which some may be missing; all files if there are none.
        into: an empty folder.

    Raises:
        LayoutError: git refuses, or none of the paths is there.
    """
    listed = (
        git(repository, "ls-tree", "--name-only", revision, "--", *paths).decode().split("\n") if paths else []
    )
    known = [path for path in listed if path]
    if paths and not known:
        raise LayoutError(f"{revision[:12]} holds none of {', '.join(paths)}")
    data = git(repository, "archive", "--format=tar", revision, "--", *known)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(into, filter="data")


def history(repository: Path, since: str, until: str, paths: Sequence[str]) -> list[Commit]:
    """Commits that change some of the paths, oldest first.

    Args:
        repository: the repository.
        since: a date ("2026-06-22") or a revision; commits after it.
        until: a revision.
        paths: paths that matter.

    Raises:
        LayoutError: git refuses.
    """
    last = resolve_revision(repository, until)
    try:
        span = [f"{resolve_revision(repository, since)}..{last}"]
    except LayoutError:
        if not since[:4].isdigit():
            raise LayoutError(f"--since is {since!r}; allowed: a revision, or a date as in 2026-06-22") from None
        span = [f"--since={since}T00:00:00Z", last]
    text = git(repository, "log", "--reverse", "--format=%H%x09%cs%x09%s", *span, "--", *paths).decode()
    return [Commit(*line.split("\t", 2)) for line in text.splitlines() if line]


def open_target(text: str, scratch: Path) -> TargetSpec:
    """The target of a ``--target`` value, its revision unpacked where it names one.

    Args:
        text: the value.
        scratch: folder that revisions are unpacked into.

    Raises:
        LayoutError: no such target, folder or revision.
    """
    kind, path, revision = parse_target(text)
    if kind == BUILTIN:
        return TargetSpec()
    if kind.endswith(".toml"):
        from kvproof.harness.targets.profile_file import read_profile  # noqa: PLC0415

        root = read_profile(Path(kind))[1].resolve()
        return TargetSpec(str(Path(kind).resolve()), str(root), present_revision(root))
    folder = Path(path)
    if not folder.is_dir():
        raise LayoutError(f"target {text!r}: {path!r} is no folder")
    if not revision:
        return TargetSpec(kind, str(folder.resolve()), present_revision(folder), path)
    full = resolve_revision(folder, revision)
    into = scratch / full[:12]
    if not into.is_dir():
        into.mkdir(parents=True)
        spec = TargetSpec(kind)
        profile = spec.profile()
        unpack(folder, full, [profile.marker] if profile else [], into)
    return TargetSpec(kind, str(into), full[:12], path)
