"""``kvproof report``: the site of the history."""

from __future__ import annotations

from typing import Annotated

import typer

from kvproof.harness.cli.registry import command

History = Annotated[
    str | None,
    typer.Option(
        "--history",
        metavar="PLACE",
        help="Folder of the runs, or git:BRANCH of the repository here. Default: .kvproof/history.",
    ),
]


@command("report")
def report(
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Folder that the site is written to.")],
    history: History = None,
) -> None:
    """Write the site of all stored runs, records and findings: static pages that open from disk, offline.

    \b
    Examples:
      kvproof report --out site
      kvproof report --out site --history git:kvproof-history
    """
    from pathlib import Path

    from kvproof.harness.cli.history_facts import certificates
    from kvproof.reports.history.series import timelines
    from kvproof.reports.history.store import open_history
    from kvproof.reports.site.build import build_site
    from kvproof.reports.store import Store

    store = Store()
    lines = timelines(open_history(history).runs())
    count = build_site(Path(out), lines, list(store.records()), list(store.findings()), certificates())
    print(f"{count:,} pages in {out}; open {Path(out, 'index.html')}")
