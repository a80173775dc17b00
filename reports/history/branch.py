"""Files of a branch, read and added without a work tree."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kvproof.reports.errors import ReportError

TRIES = 20
"""Times that an addition is made again because another writer was faster."""

_IDENTITY = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "kvproof"), ("EMAIL", "kvproof@localhost"))
}


class Branch:
    """A branch of a repository that holds nothing but files added here.

    Args:
        repository: a folder in it.
        name: the branch's name.

    Raises:
        ReportError: no repository, or a name that no branch may have.
    """

    def __init__(self, repository: Path, name: str) -> None:
        self._repository = repository
        self.name = name
        self._git("rev-parse", "--git-dir")
        self._git("check-ref-format", "--branch", name)

    @property
    def _reference(self) -> str:
        return f"refs/heads/{self.name}"

    def tip(self) -> str:
        """The branch's commit, empty if there is no such branch yet."""
        return self._git("rev-parse", "--verify", "--quiet", self._reference, allowed=(0, 1)).strip()

    def names(self) -> list[str]:
        """Names of all JSON files."""
        tip = self.tip()
        if not tip:
            return []
        listed = self._git("ls-tree", "-r", "-z", "--name-only", tip)
        return [name for name in listed.split("\0") if name.endswith(".json")]

    def read(self) -> Iterator[tuple[str, str]]:
        """(name, text) of every JSON file."""
        tip, names = self.tip(), self.names()
        asked = "".join(f"{tip}:{name}\n" for name in names).encode()
        answer = self._bytes("cat-file", "--batch", given=asked)
        at = 0
        for name in names:
            end = answer.index(b"\n", at)
            size = int(answer[at:end].split()[-1])
            yield name, answer[end + 1 : end + 1 + size].decode("utf-8", "replace")
            at = end + size + 2

    def add(self, files: Mapping[str, str], message: str, removed: Sequence[str] = ()) -> None:
        """Commit files to the branch, atomically: another writer's addition in between is kept.

        Raises:
            ReportError: git refuses, or others are faster too often.
        """
        blobs = {
            name: self._bytes("hash-object", "-w", "--stdin", given=text.encode()).decode().strip()
            for name, text in files.items()
        }
        for _ in range(TRIES):
            tip = self.tip()
            tree = self._tree(tip, blobs, removed)
            if tip and tree == self._git("rev-parse", f"{tip}^{{tree}}").strip():
                return
            parents = ("-p", tip) if tip else ()
            commit = self._git("commit-tree", tree, *parents, "-m", message).strip()
            try:
                # Only if nobody has moved it since: an empty old value means that there must be no branch yet.
                self._git("update-ref", self._reference, commit, tip or "0" * 40)
            except ReportError:
                continue
            return
        raise ReportError(f"branch {self.name}: {TRIES} additions in a row met another writer's")

    def _tree(self, tip: str, blobs: Mapping[str, str], removed: Sequence[str]) -> str:
        with tempfile.TemporaryDirectory() as folder:
            index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
            if tip:
                self._bytes("read-tree", tip, more=index)
            lines = [f"100644 {blob}\t{name}" for name, blob in blobs.items()]
            lines += [f"0 {'0' * 40}\t{name}" for name in removed]
            self._bytes("update-index", "--index-info", given="\n".join([*lines, ""]).encode(), more=index)
            return self._bytes("write-tree", more=index).decode().strip()

    def _git(self, *arguments: str, allowed: tuple[int, ...] = (0,)) -> str:
        return self._bytes(*arguments, allowed=allowed).decode()

    def _bytes(
        self,
        *arguments: str,
        given: bytes = b"",
        more: Mapping[str, str] | None = None,
        allowed: tuple[int, ...] = (0,),
    ) -> bytes:
        try:
            done = subprocess.run(  # noqa: S603  (arguments made here)
                ["git", "-C", str(self._repository), *arguments],  # noqa: S607  (found on the user's path)
                input=given,
                capture_output=True,
                timeout=120,
                check=False,
                env={**os.environ, **_IDENTITY, **(more or {})},
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ReportError(f"git {arguments[0]}: {error}") from error
        if done.returncode not in allowed:
            said = done.stderr.decode("utf-8", "replace").strip()
            raise ReportError(f"git {arguments[0]} in {self._repository}: {said}")
        return done.stdout
