"""The facts of a layout as a person wants to see them: each number with a word on what it counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table


def print_layout(facts: dict[str, Any], console: Console) -> None:
    """Print what :func:`kvproof.harness.cli.layout_facts.layout_facts` returned."""
    _print_heading(facts, console)
    _print_classes(facts, console)
    _print_sizes(facts, console)
    _print_state(facts, console)
    _print_waste(facts, console)


def _table(title: str, left: Sequence[str], right: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in left:
        table.add_column(name)
    for name in right:
        table.add_column(name, justify="right")
    return table


def _print_heading(facts: dict[str, Any], console: Console) -> None:
    config = facts["configuration"]
    draft = "no draft"
    if config["draft"] != "none":
        draft = (
            f"{config['draft']} draft: {config['draft_layers']} layer(s), {config['draft_tokens']} token(s) a step"
        )
    planes = " + ".join(f"{plane['name']} {plane['row_bytes']} B" for plane in facts["planes"])
    console.print(f"[bold]{config['name']}[/bold]: {config['layers']} layers, {config['kv']} KV, {draft}")
    console.print(
        f"window {config['sliding_window']} tokens, ring {config['ring_slots']} positions, block "
        f"{config['block_size']} tokens, index top-k {config['index_topk']}"
    )
    console.print(f"a row is {planes}; every plane has the same rows")
    if facts["absent_layers"]:
        layers = spans(facts["absent_layers"])
        console.print(f"layers {layers} are absent from the row space: their window is a state field")
    console.print()


def _print_classes(facts: dict[str, Any], console: Console) -> None:
    table = _table(
        "Classes",
        ["class", "layers"],
        ["count", "rows a block", "stride", "runs", "in envelope", "in entry", "height", "base rows"],
    )
    for cls in facts["classes"]:
        offset = cls["envelope_offset"]
        inside = "-" if offset is None else _extent(offset, cls["envelope_rows"])
        table.add_row(
            cls["name"],
            spans(cls["layers"]),
            str(len(cls["layers"])),
            str(cls["block_rows"] or "-"),
            str(cls["ring_stride"]),
            str(cls["runs"]),
            inside,
            _extent(cls["entry_offset"], cls["entry_rows"]),
            str(cls["entry_rows"]),
            _steps(cls["base_rows"]),
        )
    console.print(table)
    console.print(
        "rows a block: compressed rows of one block in one layer. stride: rows from one layer to the next. runs: "
        "pieces a window is cut into. in envelope, in entry: rows within a block and within a slot's windows. "
        "height: rows of the class's windows, all layers. base rows: where each layer's view of the "
        "plane starts.\n"
    )


def _print_sizes(facts: dict[str, Any], console: Console) -> None:
    planes = [plane["name"] for plane in facts["planes"]]
    table = _table("Sizes", ["of", "made of"], ["rows", *[f"{name} bytes" for name in planes], "total bytes"])
    block, slot = facts["block"], facts["slot"]
    parts = " + ".join(f"{c['name']} {c['envelope_rows']:,}" for c in facts["classes"] if c["envelope_rows"])
    windows = " + ".join(f"{cls['name']} {cls['entry_rows']:,}" for cls in facts["classes"])
    for of, made_of, rows, sizes in (
        ("one block (envelope)", parts or "no compressed rows", block["envelope_rows"], block),
        (
            "one slot",
            f"arena {slot['arena_rows']:,} + windows {slot['entry_rows']:,}, by {slot['slot_align_rows']}",
            slot["slot_rows"],
            slot,
        ),
    ):
        each = [f"{sizes['plane_bytes'][name]:,}" for name in planes]
        table.add_row(of, made_of, f"{rows:,}", *each, f"{sizes['bytes']:,}")
    console.print(table)
    console.print(f"windows of a slot (entry), all layers: {windows or 'none'} = {slot['entry_rows']:,} rows")
    console.print(
        f"a slot without its arena would be {slot['slot_rows_without_arena']:,} rows; the arena, "
        f"{slot['arena_rows']:,} rows at the slot's front, holds the compressor state\n"
    )


def _print_state(facts: dict[str, Any], console: Console) -> None:
    table = _table(
        "State fields of a request", ["field", "shape", "dtype", "starts as", "plane"], ["offset", "bytes"]
    )
    for field in facts["state_fields"]:
        table.add_row(
            field["name"],
            str(field["shape"]),
            field["dtype"],
            field["fill"],
            field["plane"],
            f"{field['offset']:,}",
            f"{field['bytes']:,}",
        )
    if not facts["state_fields"]:
        console.print("[bold]State fields of a request[/bold]: none\n")
        return
    console.print(table)
    console.print("shape: layers, ring positions, width. offset: bytes from the slot's start in that plane.")
    for arena in facts["arena"]:
        console.print(
            f"plane {arena['plane']}: {arena['used_bytes']:,} of the arena's {arena['bytes']:,} bytes used"
        )
    console.print()


def _print_waste(facts: dict[str, Any], console: Console) -> None:
    waste = facts["waste_of_a_slot"]
    table = _table("Waste of a slot", ["cause"], ["rows", "bytes"])
    table.add_row("rounding the slot up to its alignment", *_pair(waste["alignment"]))
    table.add_row("ring rows that no position reaches", *_pair(waste["unreachable_ring_rows"]))
    table.add_row("arena bytes that no state field holds", *_pair(waste["arena_rest"]))
    table.add_row("together", "", f"{waste['bytes']:,} ({waste['percent']}%)")
    console.print(table)


def _pair(item: dict[str, int]) -> tuple[str, str]:
    return (f"{item['rows']:,}" if "rows" in item else ""), f"{item['bytes']:,}"


def _extent(start: int, rows: int) -> str:
    return f"{start}..{start + rows - 1}"


def spans(numbers: Iterable[int]) -> str:
    """Ascending numbers, with equal steps of at least three written once: "0, 1, 3-41 by 2"."""
    rest = list(numbers)
    parts: list[str] = []
    while rest:
        step = rest[1] - rest[0] if len(rest) > 1 else 0
        length = 1
        while length < len(rest) and rest[length] - rest[length - 1] == step:
            length += 1
        if length < 3:
            parts.append(str(rest.pop(0)))
            continue
        suffix = "" if step == 1 else f" by {step}"
        parts.append(f"{rest[0]}-{rest[length - 1]}{suffix}")
        rest = rest[length:]
    return ", ".join(parts)


def _steps(rows: Sequence[int]) -> str:
    """Base rows are equally spaced within a class."""
    return spans(rows)
