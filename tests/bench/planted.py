"""One slow commit among eight: whether the tools of today find it, and what they say.

``python tests/bench/planted.py [--gate] [--folder DIR]``: clones this repository, adds seven commits of words and
one that makes a kernel read more than it must, measures both ends, asks ``kvproof regressions``, runs the bisect
command that it prints, and with ``--gate`` ``kvproof gate`` over that commit. Exit status 1 unless it is found.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kvproof.harness.bench.versions import checkout

KERNEL = "hca_head"
FILE = Path("kernels/hca_head/kernel.py")
BEFORE = "    sequence = tl.load(batch_ids_ptr + t)\n"
AFTER = BEFORE + (
    "    for _ in range(2):\n        sequence = tl.maximum(sequence, tl.load(batch_ids_ptr + t, volatile=True))\n"
)
COMMITS, SLOW = 8, 3
"""Commits that are added, and which of them, from 0, is slow."""


def git(folder: Path, *arguments: str) -> str:
    """What git prints."""
    who = ("-c", "user.name=planted", "-c", "user.email=planted@localhost")
    done = subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def plant(folder: Path) -> list[str]:
    """Hashes from the commit before those that are added to the last.

    Raises:
        ValueError: the kernel no longer has the line that is changed.
    """
    git(folder.parent, "clone", "--quiet", str(checkout()), str(folder))
    found = [git(folder, "rev-parse", "HEAD")]
    for number in range(COMMITS):
        if number == SLOW:
            text = (folder / FILE).read_text(encoding="utf-8")
            if text.count(BEFORE) != 1:
                raise ValueError(f"{FILE} has {text.count(BEFORE)} lines {BEFORE.strip()!r}; there must be one")
            (folder / FILE).write_text(text.replace(BEFORE, AFTER), encoding="utf-8")
        else:
            with (folder / "README.md").open("a", encoding="utf-8") as page:
                page.write(f"\nWords {number}.\n")
        git(folder, "commit", "--quiet", "-am", "Tidy a head" if number == SLOW else f"Words {number}")
        found.append(git(folder, "rev-parse", "HEAD"))
    return found


def kvproof(folder: Path, *arguments: str) -> tuple[int, str]:
    """(exit status, output) of a command of the clone; printed too, with how long it took."""
    names = {"PYTHONPATH": str(folder / "src"), "KVPROOF_STORE": str(folder.parent / "store")}
    begun = time.monotonic()
    print(f"$ kvproof {shlex.join(arguments)}", flush=True)
    done = subprocess.run(
        [sys.executable, "-m", "kvproof", *arguments],
        cwd=folder,
        env={**os.environ, **names, "KVPROOF_HISTORY": str(folder.parent / "history")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=3600,
        check=False,
    )
    print(f"{done.stdout}exit status {done.returncode}, {time.monotonic() - begun:.0f} s\n", flush=True)
    return done.returncode, done.stdout


def hunt(folder: Path, gate: bool) -> bool:
    """Whether the planted commit is found, by name."""
    commits = plant(folder)
    slow = commits[SLOW + 1]
    for commit in (commits[0], commits[-1]):
        kvproof(
            folder, "bench", "--kind", "offline", "--kernel", KERNEL, "--target", f"builtin@{commit}", "--save"
        )
    status, said = kvproof(folder, "regressions")
    command = re.search(r"^\s*kvproof (bisect .*)$", said, re.MULTILINE)
    if status != 1 or command is None:
        print("regressions did not see it")
        return False
    _, said = kvproof(folder, *shlex.split(command[1]))
    found = f"first: {slow}" in said
    print(f"planted {slow[:12]}: {'found' if found else 'NOT found'}")
    if gate:
        kvproof(folder, "gate", f"{slow}~1", slow)
    return found


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gate", action="store_true")
    parser.add_argument("--folder", type=Path, help="an empty folder to keep everything in; else a temporary one")
    given = parser.parse_args()
    if given.folder is not None:
        given.folder.mkdir(parents=True, exist_ok=True)
        return 0 if hunt(given.folder.resolve() / "clone", given.gate) else 1
    with tempfile.TemporaryDirectory() as scratch:
        return 0 if hunt(Path(scratch) / "clone", given.gate) else 1


if __name__ == "__main__":
    sys.exit(main())
