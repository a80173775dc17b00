"""A picture of a pool, as SVG: blocks from the low end, the gap, slots at the high end, and who owns what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

# Okabe and Ito's colours, which remain apart for colour-blind readers.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#8A6FB0")
FREE, SHARED, INK, FAULT = "#EEF0F2", "#9AA3AD", "#1F2933", "#C81E1E"

WIDTH, MARGIN, CELL, GAP = 960, 24, 44, 4
LINE = 20
CHARACTERS = 128
"""Of a line of text; longer ones are broken."""


@dataclass(frozen=True)
class Part:
    """A block or a slot.

    Attributes:
        number: its id.
        owner: request; -1 of nobody, -2 of several or of the prefix cache.
        start, stop: plane rows.
        failing: whether the row at fault lies here.
    """

    number: int
    owner: int
    start: int
    stop: int
    failing: bool = False


@dataclass(frozen=True)
class PoolState:
    """What is drawn.

    Attributes:
        title: one line.
        blocks, slots: by id from the low end.
        rows: rows of the plane.
        row: plane row at fault, or None.
        story: the schedule, a line a step.
        history: the row's writes, a line each.
    """

    title: str
    blocks: Sequence[Part]
    slots: Sequence[Part]
    rows: int
    row: int | None
    story: Sequence[str]
    history: Sequence[str]


def pool_svg(state: PoolState) -> str:
    """An SVG document. Text is real text, colours are given with the names of owners beside them."""
    body: list[str] = []
    y = MARGIN + 6
    y = _text(body, [state.title], y, size=17, weight="600")
    y = _plane(body, state, y + 16)
    y = _grid(body, "blocks, from the low end", "block", state.blocks, _owners(state), y)
    y = _grid(body, "slots, from the high end", "slot", state.slots[::-1], _owners(state), y)
    y = _legend(body, state, y)
    if state.history:
        what = "the row's history" if state.row is None else f"history of row {state.row:,}"
        y = _text(body, [what], y + 6, size=14, weight="600")
        y = _text(body, state.history, y, size=13)
    y = _text(body, ["the schedule"], y + 6, size=14, weight="600")
    y = _text(body, state.story, y, size=13)
    height = y + MARGIN - LINE // 2
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" '
        f'role="img" font-family="system-ui, sans-serif" fill="{INK}">'
    )
    title = f"<title>{escape(state.title)}</title>"
    ground = f'<rect width="{WIDTH}" height="{height}" fill="#FFFFFF"/>'
    return "\n".join([head, title, ground, *body, "</svg>"]) + "\n"


def colour(owner: int, owners: Sequence[int]) -> str:
    """Colour of an owner: of requests in turn, grey of what is shared, pale of what is free."""
    if owner == -1:
        return FREE
    return SHARED if owner < 0 else COLOURS[owners.index(owner) % len(COLOURS)]


def _owners(state: PoolState) -> list[int]:
    return sorted({part.owner for part in [*state.blocks, *state.slots] if part.owner >= 0})


def _plane(body: list[str], state: PoolState, y: int) -> int:
    """The whole plane to scale."""
    owners, scale, height = _owners(state), (WIDTH - 2 * MARGIN) / max(state.rows, 1), 34
    frame = f'width="{WIDTH - 2 * MARGIN}" height="{height}" fill="#FFFFFF" stroke="{INK}"'
    body.append(f'<rect x="{MARGIN}" y="{y}" {frame}/>')
    for part in [*state.blocks, *state.slots]:
        x, width = MARGIN + part.start * scale, max((part.stop - part.start) * scale, 0.5)
        fill = colour(part.owner, owners)
        body.append(
            f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="{height}" fill="{fill}" '
            f'stroke="#FFFFFF" stroke-width="{min(1.0, width / 4):.2f}"/>'
        )
    if state.row is not None:
        x = MARGIN + (state.row + 0.5) * scale
        body.append(f'<path d="M{x:.2f} {y - 4} V{y + height + 4}" stroke="{FAULT}" stroke-width="2"/>')
    low = max((part.stop for part in state.blocks), default=0)
    high = min((part.start for part in state.slots), default=state.rows)
    ends = y + height + 16
    body.append(f'<text x="{MARGIN}" y="{ends}" font-size="12">row 0</text>')
    body.append(
        f'<text x="{WIDTH - MARGIN}" y="{ends}" font-size="12" text-anchor="end">row {state.rows:,}</text>'
    )
    if state.row is not None:
        x = min(max(MARGIN + state.row * scale, MARGIN + 50), WIDTH - MARGIN - 50)
        at = f'x="{x:.0f}" y="{y - 8}" font-size="12" text-anchor="middle" fill="{FAULT}"'
        body.append(f"<text {at}>row {state.row:,} at fault</text>")
    free = (
        f"gap between blocks and slots: rows {low:,} to {high - 1:,}"
        if high > low
        else "no gap between blocks and slots"
    )
    body.append(f'<text x="{WIDTH / 2}" y="{ends}" font-size="12" text-anchor="middle">{free}</text>')
    return ends + LINE


def _grid(body: list[str], title: str, what: str, parts: Sequence[Part], owners: Sequence[int], y: int) -> int:
    """A cell for each id: its number, and its owner's name."""
    y = _text(body, [title], y + 4, size=14, weight="600") - 8
    columns = (WIDTH - 2 * MARGIN + GAP) // (CELL + GAP)
    shown = parts[: 6 * columns]
    for place, part in enumerate(shown):
        x, top = MARGIN + place % columns * (CELL + GAP), y + place // columns * (CELL - 6 + GAP)
        edge = f'stroke="{FAULT}" stroke-width="3"' if part.failing else 'stroke="#C3CAD1"'
        owner = {-1: "free", -2: "shared"}.get(part.owner, f"request {part.owner}")
        body.append(f"<g><title>{what} {part.number}, rows {part.start:,} to {part.stop - 1:,}: {owner}</title>")
        body.append(f'<rect x="{x}" y="{top}" width="{CELL}" height="{CELL - 6}" rx="4" fill="#FFFFFF" {edge}/>')
        body.append(
            f'<text x="{x + CELL / 2}" y="{top + 15}" font-size="13" text-anchor="middle">{part.number}</text>'
        )
        strip = colour(part.owner, owners)
        body.append(f'<rect x="{x + 3}" y="{top + CELL - 12}" width="{CELL - 6}" height="4" fill="{strip}"/>')
        label = {-1: "free", -2: "shared"}.get(part.owner, f"r{part.owner}")
        body.append(
            f'<text x="{x + CELL / 2}" y="{top + 28}" font-size="11" text-anchor="middle" '
            f'fill="#52606D">{label}</text></g>'
        )
    y += -(-len(shown) // columns) * (CELL - 6 + GAP) + LINE
    left = len(parts) - len(shown)
    return _text(body, [f"and {left} more"], y, size=12) if left else y


def _legend(body: list[str], state: PoolState, y: int) -> int:
    owners = _owners(state)
    entries = [(FREE, "free"), (SHARED, "shared, or of the prefix cache")]
    entries += [(colour(owner, owners), f"request {owner}") for owner in owners[:12]]
    x = MARGIN
    for fill, words in entries:
        width = 30 + 7 * len(words)
        if x + width > WIDTH - MARGIN:
            x, y = MARGIN, y + LINE
        body.append(f'<rect x="{x}" y="{y - 11}" width="14" height="14" rx="2" fill="{fill}" stroke="#C3CAD1"/>')
        body.append(f'<text x="{x + 20}" y="{y}" font-size="13">{escape(words)}</text>')
        x += width
    return y + LINE + 4


def _text(body: list[str], lines: Sequence[str], y: int, *, size: int, weight: str = "400") -> int:
    for line in [piece for text in lines for piece in _broken(text, CHARACTERS * 13 // size)]:
        body.append(f'<text x="{MARGIN}" y="{y}" font-size="{size}" font-weight="{weight}">{escape(line)}</text>')
        y += LINE
    return y


def _broken(text: str, most: int) -> list[str]:
    """A text in lines of at most so many characters, broken at spaces where there are any."""
    lines: list[str] = []
    while len(text) > most:
        cut = text.rfind(" ", 1, most)
        cut = cut if cut > 0 else most
        lines.append(text[:cut])
        text = "    " + text[cut:].lstrip()
    return [*lines, text]
