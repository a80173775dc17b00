"""What ``kvproof bisect`` does."""

from __future__ import annotations

import tempfile
from pathlib import Path

from kvproof.harness.bench.bisect import commits_between, probe_of, repository_of, search
from kvproof.harness.bench.versions import describe
from kvproof.harness.cli.errors import UsageError
from kvproof.harness.ir.target import TargetError, parse_target


def run_bisect(bench: str, good: str, bad: str, metric: str, on: str, target: str) -> int:
    """Search and print; exit status 0 if one commit was found, 3 if it is one of several."""
    repository = repository_of(target)
    commits = commits_between(repository, good, bad)
    kind = "offline"
    if metric == "time":
        kind = "cpu" if on == "cpu" else "gpu"
    else:
        try:
            metric = f"{parse_target(on)} {metric}"
        except TargetError as error:
            raise UsageError(f"--on: {error}") from None
    print(f"{len(commits)} commits")
    first = describe(repository, good)[0]
    with tempfile.TemporaryDirectory() as scratch:
        found = search(commits, first, probe_of(target, kind, bench, metric, Path(scratch), print))
    commit, _, when, title = describe(repository, found.first)
    print(f"{bench}, {metric}: {found.good:g} to {found.bad:g}")
    print(f"first: {commit} {when} {title}")
    print(f"measured {len(found.measured)} of {len(commits) + 1} commits")
    if found.unsure:
        print(f"or one of {len(found.unsure)} before it that have no number: {', '.join(found.unsure[:10])}")
        return 3
    return 0
