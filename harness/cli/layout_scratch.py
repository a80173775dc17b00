"""A scratch plan as plain facts, as a table and as a picture: what ``kvproof layout --system scratch`` prints."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from kvproof.harness.cli.errors import UsageError
from kvproof.harness.cli.values import parse_integer
from kvproof.models.scratch import CHUNKS, FAMILIES, Dims, ScratchPlan, dims

SCRATCH_SCHEMA = "kvproof/scratch/1"
WIDTH = 64
"""Characters of the picture."""


def scratch_plan(
    family: str | None, tp: str | None, tokens: str | None, topk: str | None, chunk: str | None
) -> ScratchPlan:
    """The plan that the command line asks for.

    Raises:
        UsageError: an option is missing or has a value that it may not have.
        LayoutError: a share or a plan that the family does not serve.
    """
    if family is None or family not in FAMILIES:
        raise UsageError(f"--family is {family!r}; allowed: {', '.join(FAMILIES)}")
    if tp is None or tokens is None:
        raise UsageError("--system scratch needs --family, --tp and --tokens")
    wanted = None if topk is None else parse_integer(topk, "--topk", 0, 2**31 - 1)
    share = dims(family, parse_integer(tp, "--tp", 1, 2**16), wanted)
    width = None if chunk is None else parse_integer(chunk, "--chunk", min(CHUNKS), max(CHUNKS))
    return ScratchPlan(share, parse_integer(tokens, "--tokens", 1, 2**16), width)


def scratch_facts(plan: ScratchPlan) -> dict[str, Any]:
    """Sizes of a rank's share, and every region with its place."""
    d: Dims = plan.dims
    names = ("heads", "head_tiles", "groups", "q_rows", "o_rows", "woa_tasks", "qkv_rows", "x_groups", "keys")
    return {
        "schema": SCRATCH_SCHEMA,
        "family": d.family.name,
        "tp": d.tp,
        "tokens": plan.tokens,
        "chunk": plan.chunk,
        "chunks": plan.chunks,
        "dims": {name: getattr(d, name) for name in names},
        "regions": [_region(plan, name) for name in plan.layout],
        "back_start": plan.back_start,
        "total_bytes": plan.total_bytes,
    }


def _region(plan: ScratchPlan, name: str) -> dict[str, Any]:
    region, (offset, nbytes) = plan.regions[name], plan.layout[name]
    return {
        "name": name,
        "kernel": "front" if name in plan.front else "back",
        "offset": offset,
        "bytes": nbytes,
        "extents": dict(region.extents),
        "element_bytes": region.element_bytes,
        "kind": region.kind,
        "meaning": region.meaning,
        "writer": region.writer,
        "reader": region.reader,
    }


def print_scratch(facts: dict[str, Any], console: Console) -> None:
    """Print what :func:`scratch_facts` returned."""
    sizes = facts["dims"]
    console.print(
        f"[bold]{facts['family']}[/bold]: {facts['tokens']} token(s), one rank of {facts['tp']}: "
        f"{sizes['heads']} heads in {sizes['head_tiles']} tile(s), {sizes['groups']} output group(s)"
    )
    console.print(
        f"{sizes['keys']:,} keys a token in {facts['chunks']} chunk(s) of {facts['chunk']}; "
        f"{facts['total_bytes']:,} bytes of scratch\n"
    )
    _print_regions(facts, console)
    console.print("[bold]Picture[/bold]")
    for line in picture(facts):
        console.print(line, highlight=False, markup=False)


def _print_regions(facts: dict[str, Any], console: Console) -> None:
    table = Table(title="Regions", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("kernel", "region"):
        table.add_column(name)
    for name in ("offset", "bytes"):
        table.add_column(name, justify="right")
    for name in ("elements", "holds", "from", "to"):
        table.add_column(name, overflow="fold")
    for region in facts["regions"]:
        extents = " x ".join(f"{size} {axis}" for axis, size in region["extents"].items())
        table.add_row(
            region["kernel"],
            region["name"],
            f"{region['offset']:,}",
            f"{region['bytes']:,}",
            f"{extents}, {region['element_bytes']} B",
            region["meaning"],
            region["writer"],
            region["reader"],
        )
    console.print(table)


def picture(facts: dict[str, Any]) -> list[str]:
    """One line a region: where it lies in the buffer, at least one mark wide; gaps and overlaps would show."""
    total = facts["total_bytes"]
    lines: list[str] = []
    for region in facts["regions"]:
        first = region["offset"] * WIDTH // total
        last = max(first, (region["offset"] + region["bytes"] - 1) * WIDTH // total)
        bar = " " * first + "#" * (last - first + 1)
        share = 100 * region["bytes"] / total
        lines.append(f"{region['name']:>6} |{bar:<{WIDTH}}| {share:5.1f} %")
    return lines
