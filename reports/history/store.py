"""Where runs are kept: a folder of files, or a branch of a git repository. Runs are added, never changed.

A file that cannot be read is never fatal and never deleted: in a folder it is renamed to ``<name>.damaged``.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from kvproof.reports.errors import DamagedReportError, ForeignVersionError
from kvproof.reports.history.branch import Branch
from kvproof.reports.history.run import Run, decode_run, run_name, run_text
from kvproof.reports.store import default_root, write_atomically

HISTORY_VARIABLE = "KVPROOF_HISTORY"
"""Environment variable that names the history; by default the folder ``history`` in the store."""

_log = logging.getLogger("kvproof")


class History(Protocol):
    """Runs in some place."""

    def append(self, run: Run) -> str:
        """Add a run; returns its name. Adding the same run again changes nothing."""
        ...

    def runs(self) -> Iterator[Run]:
        """Every readable run, oldest first."""
        ...

    def remove(self, names: Sequence[str]) -> None:
        """Forget runs by name."""
        ...

    def names(self) -> list[str]:
        """Names of all runs, oldest first."""
        ...


class FolderHistory:
    """Runs as files of a folder; safe with any number of writers, since each file is written whole and named by
    what it holds.

    Args:
        root: the folder; need not exist.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def append(self, run: Run) -> str:
        """Add a run; returns its name."""
        text = run_text(run)
        name = run_name(run, text)
        path = self.root / run.target / f"{name}.json"
        if not path.exists():
            write_atomically(path, text)
        return name

    def names(self) -> list[str]:
        """Names of all runs, oldest first."""
        return sorted(path.stem for path in self.root.glob("*/*.json"))

    def runs(self) -> Iterator[Run]:
        """Every readable run, oldest first."""
        for path in sorted(self.root.glob("*/*.json"), key=lambda path: path.name):
            try:
                yield decode_run(path.read_text(encoding="utf-8"), str(path))
            except (DamagedReportError, UnicodeDecodeError) as error:
                _set_aside(path, f"{path}: {error}" if isinstance(error, UnicodeDecodeError) else str(error))
            except (ForeignVersionError, OSError) as error:
                _log.warning("skipped: %s", error)

    def remove(self, names: Sequence[str]) -> None:
        """Forget runs by name."""
        for name in names:
            for path in self.root.glob(f"*/{name}.json"):
                path.unlink()


def _set_aside(path: Path, why: str) -> None:
    aside = path.with_name(path.name + ".damaged")
    try:
        path.replace(aside)
    except OSError as error:
        # A history that may only be read: the file is named each time, and the rest is used.
        _log.warning("skipped: %s (it cannot be set aside: %s)", why, error.strerror)
        return
    _log.warning("%s; set aside as %s", why, aside.name)


class BranchHistory:
    """Runs as files of a branch; each addition is a commit on it, and no work tree is touched.

    Args:
        branch: the branch.
    """

    def __init__(self, branch: Branch) -> None:
        self.branch = branch

    def append(self, run: Run) -> str:
        """Add a run; returns its name."""
        text = run_text(run)
        name = run_name(run, text)
        self.branch.add({f"{run.target}/{name}.json": text}, f"Run of {run.target} {run.commit[:12]}")
        return name

    def names(self) -> list[str]:
        """Names of all runs, oldest first."""
        return sorted(Path(name).stem for name in self.branch.names())

    def runs(self) -> Iterator[Run]:
        """Every readable run, oldest first. A damaged one stays in the branch, and is named."""
        for name, text in sorted(self.branch.read(), key=lambda item: Path(item[0]).name):
            try:
                yield decode_run(text, f"{self.branch.name}:{name}")
            except (DamagedReportError, ForeignVersionError) as error:
                _log.warning("skipped: %s", error)

    def remove(self, names: Sequence[str]) -> None:
        """Forget runs by name, from the branch's tip on."""
        wanted = set(names)
        gone = [name for name in self.branch.names() if Path(name).stem in wanted]
        self.branch.add({}, f"Remove {len(gone)} runs", gone)


def open_history(where: str | None = None) -> History:
    """The history at "git:BRANCH" of the repository here, or in a folder.

    Raises:
        ReportError: no repository here.
    """
    where = where or os.environ.get(HISTORY_VARIABLE) or str(default_root() / "history")
    if where.startswith("git:"):
        return BranchHistory(Branch(Path.cwd(), where.removeprefix("git:")))
    return FolderHistory(Path(where))


def export_runs(history: History, path: Path) -> int:
    """Write all runs to one file, a line each; returns how many."""
    texts = [run_text(run) for run in history.runs()]
    write_atomically(path, "".join(texts))
    return len(texts)


def import_runs(history: History, path: Path) -> tuple[int, list[str]]:
    """Add the runs of a file (one line a run), or of a folder of such files.

    Returns:
        How many there were, and for every line that is none and every file that cannot be read, what is wrong.
    """
    count, wrong = 0, list[str]()
    for file in sorted(path.rglob("*.json*")) if path.is_dir() else [path]:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            wrong.append(f"{file} cannot be read: {error}")
            continue
        for number, line in enumerate(_documents(text), 1):
            try:
                history.append(decode_run(line, f"{file}:{number}"))
                count += 1
            except (DamagedReportError, ForeignVersionError) as error:
                wrong.append(str(error))
    return count, wrong


def _documents(text: str) -> list[str]:
    """The file itself if it is one JSON document, however it is laid out; its lines otherwise."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return [line for line in text.splitlines() if line.strip()]
    return [text]


def prune(history: History, keep: int) -> list[str]:
    """Forget all but the newest runs of each target, device and machine; returns the names of those forgotten."""
    if keep < 1:
        raise ValueError(f"keep is {keep}; allowed: at least 1")
    groups: dict[tuple[str, str, str], list[str]] = {}
    for run in history.runs():
        groups.setdefault((run.target, run.device, run.machine.get("host", "")), []).append(run.id)
    gone = [name for names in groups.values() for name in names[:-keep]]
    if gone:
        history.remove(gone)
    return gone
