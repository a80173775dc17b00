"""The ``--json`` file of a sweep: written after each commit, and read to go on where a sweep was broken off."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kvproof.harness.cli.errors import UsageError
from kvproof.harness.run.target_campaign import ContractReport
from kvproof.harness.run.target_history import Depth, Snapshot
from kvproof.harness.targets.revisions import Commit
from kvproof.reports.errors import ReportError
from kvproof.reports.store import Store

VERSION = 1


def snapshots_text(snapshots: Sequence[Snapshot], kind: str, depth: Depth) -> str:
    """Snapshots as JSON, with what they were made with."""
    data = {
        "version": VERSION,
        "target": kind,
        "depth": asdict(depth),
        "commits": [_as_json(s) for s in snapshots],
    }
    return json.dumps(data, indent=1) + "\n"


def _as_json(s: Snapshot) -> dict[str, Any]:
    return {
        "commit": s.commit.revision,
        "date": s.commit.date,
        "title": s.commit.title,
        "era": s.era,
        "failed": s.failed,
        "mapped": {n: r.function for n, r in s.reports.items() if r.function},
        "not offered": {n: r.reason for n, r in s.reports.items() if not r.function},
        "causes": [{"contract": n, "cause": c, "finding": f.id} for (n, c), f in s.causes.items()],
        "in 32 bits": [
            {"kernel": k, "argument": a, "factors": f, "place": place} for (k, a, f), place in s.narrow.items()
        ],
        "compiled": s.ir,
        "not compiled": s.problems,
    }


def read_snapshots(file: Path, kind: str, depth: Depth, store: Store) -> dict[str, Snapshot]:
    """Snapshots by revision. A commit whose findings are not in the store any more, or that failed, is left out.

    Raises:
        UsageError: the file holds no sweep, or one of another target or depth.
    """
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        made_with = data["version"], data["target"], data["depth"]
        snapshots = [_snapshot(entry, store) for entry in data["commits"] if not entry["failed"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as error:
        raise UsageError(
            f"--json {str(file)!r} holds no sweep to resume: {type(error).__name__}: {error}"
        ) from None
    if made_with != (VERSION, kind, asdict(depth)):
        raise UsageError(
            f"--json {str(file)!r} was made with {made_with[1]!r} and {made_with[2]}; "
            f"allowed with --resume: the same as now, {kind!r} and {asdict(depth)}"
        )
    return {snapshot.commit.revision: snapshot for snapshot in snapshots if snapshot is not None}


def _snapshot(entry: dict[str, Any], store: Store) -> Snapshot | None:
    reports = {name: ContractReport(name, function) for name, function in entry["mapped"].items()}
    reports |= {name: ContractReport(name, reason=reason) for name, reason in entry["not offered"].items()}
    try:
        causes = {(c["contract"], c["cause"]): store.find(c["finding"]) for c in entry["causes"]}
    except ReportError:
        return None
    return Snapshot(
        Commit(entry["commit"], entry["date"], entry["title"]),
        reports,
        causes,
        {(o["kernel"], o["argument"], o["factors"]): o["place"] for o in entry["in 32 bits"]},
        entry["compiled"],
        entry["not compiled"],
        entry["era"],
    )
