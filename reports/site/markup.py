"""Pieces of pages. Text is escaped here; everything returned is HTML."""

from __future__ import annotations

import functools
import hashlib
import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

PAGES = (
    ("index.html", "Overview"),
    ("compare.html", "Compare commits"),
    ("correctness.html", "Correctness"),
    ("fuzz.html", "Fuzzing"),
)


def text(value: object) -> str:
    """Escaped text."""
    return _escaped(value if isinstance(value, str) else str(value))


# Names and titles come back on every page.
_escaped = functools.lru_cache(maxsize=2**16)(html.escape)


def slug(*parts: str) -> str:
    """A file name for these words: readable, and unlike for unlike words."""
    words = "-".join(parts)
    plain = re.sub(r"[^A-Za-z0-9.]+", "-", words).strip("-")[:80]
    return f"{plain}-{hashlib.sha256(words.encode()).hexdigest()[:6]}"


@functools.lru_cache(maxsize=2**14)
def link(address: str, words: str) -> str:
    """A link."""
    return f'<a href="{text(address)}">{text(words)}</a>'


def verdict(word: str) -> str:
    """A verdict as a badge: the word itself, never the colour alone."""
    kind = re.sub(r"[^a-z_]", "", word.lower())
    return f'<span class="verdict {kind}">{text(word)}</span>'


def number(value: float | None) -> str:
    """A number with five digits that count, or all of those before the point."""
    if value is None:
        return ""
    size = abs(value)
    return f"{value:,.0f}" if size < 1e9 and (size >= 1e4 or value == int(value)) else f"{value:,.5g}"


def change(before: float, after: float) -> str:
    """By how much: "+3.0%", "" for nothing."""
    if before == after:
        return ""
    return f"{after / before - 1:+.2%}" if before else f"+{after:g}"


def table(
    caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[int] = (), name: str = ""
) -> str:
    """A table in a region of its own that scrolls, by keyboard too.

    Args:
        caption: what it shows.
        heads: column heads, as text.
        rows: cells as HTML.
        right: columns of numbers.
        name: an id, by which a filter finds it.
    """
    numbers = set(right)
    styles = [' class="n"' if i in numbers else "" for i in range(len(heads))]
    starts = [f"<td{style}>" for style in styles]
    head = "".join(f'<th scope="col"{style}>{text(h)}</th>' for h, style in zip(heads, styles, strict=True))
    lines = [
        "<tr>" + "".join([f"{start}{cell}</td>" for cell, start in zip(row, starts, strict=True)]) + "</tr>"
        for row in rows
    ]
    if not lines:
        return f'<p class="empty">{text(caption)}: nothing.</p>'
    mark = f' id="{text(name)}"' if name else ""
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{text(caption)}"><table{mark}>'
        f"<caption>{text(caption)}</caption><thead><tr>{head}</tr></thead>\n<tbody>\n"
        + "\n".join(lines)
        + "\n</tbody></table></div>"
    )


def embedded(name: str, value: Any) -> str:
    """Data for the page's script."""
    return f'<script type="application/json" id="{text(name)}">{script_json(value)}</script>'


def script_json(value: Any) -> str:
    """JSON that cannot end the script element that it stands in."""
    return (
        json.dumps(value, separators=(",", ":"), allow_nan=False).replace("</", "<\\/").replace("<!--", "<\\!--")
    )


def sparkline(values: Sequence[float]) -> str:
    """A small picture of the last values; a decoration beside numbers that say the same."""
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    step = 100 / (len(values) - 1)
    points = " ".join(f"{i * step:.0f},{18 - 16 * (v - low) / span:.0f}" for i, v in enumerate(values))
    return f'<svg class="spark" viewBox="0 0 100 20" aria-hidden="true"><polyline points="{points}"/></svg>'


def facts(items: Mapping[str, str]) -> str:
    """Names and values; the values are HTML."""
    return "<dl>" + "".join(f"<dt>{text(k)}</dt><dd>{v}</dd>" for k, v in items.items() if v) + "</dl>"


def page(title: str, body: str, *, depth: int = 0, chart: bool = False, made: str = "") -> str:
    """A whole page.

    Args:
        title: of the page.
        body: HTML.
        depth: folders below the site's root.
        chart: whether it needs the chart library.
        made: when the site was made.
    """
    root = "../" * depth
    links = "".join(f"<li>{link(root + address, words)}</li>" for address, words in PAGES)
    library = f'<script src="{root}assets/plotly.min.js" defer></script>' if chart else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{text(title)} - kvproof</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{root}assets/site.css">
{library}<script src="{root}assets/site.js" defer></script>
</head>
<body>
<a class="skip" href="#main">Skip to content</a>
<header><nav aria-label="Pages"><span class="brand">kvproof</span><ul>{links}</ul></nav></header>
<main id="main" tabindex="-1">
<h1>{text(title)}</h1>
{body}
</main>
<footer><p>Made {text(made)} from stored runs and records. A verdict is a value, and only PASS passes.</p></footer>
</body>
</html>
"""
