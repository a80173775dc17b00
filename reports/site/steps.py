"""Steps as a table."""

from __future__ import annotations

from collections.abc import Sequence

from kvproof.reports.site.markup import link, number, slug, table, text, verdict
from kvproof.reports.verdicts.regressions import Regression


def steps_table(steps: Sequence[Regression], depth: int = 0, name: str = "") -> str:
    """Steps with the commits between which they are."""
    root = "../" * depth
    rows = [
        [
            verdict(step.change),
            text(f"{step.series.name} on {step.series.on}"),
            text(step.series.metric),
            number(step.before),
            number(step.after),
            text(step.amount),
            text(step.good.short)
            + " to "
            + link(f"{root}commits/{slug(step.series.target)}-{step.bad.commit[:12]}.html", step.bad.short),
            text(step.bad.title[:60]),
        ]
        for step in steps
    ]
    heads = ["verdict", "series", "metric", "before", "after", "change", "between", "first commit after it"]
    return table("Steps, the newest first", heads, rows, right=(3, 4, 5), name=name)
