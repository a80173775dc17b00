"""A model's cache schema as plain facts and as tables: what ``kvproof layout --system schema`` prints."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.models.schema import (
    BLOCK_SIZE_ORIGINAL_TOKENS,
    ENTRY_FORMATS,
    INDEXER_FORMATS,
    TENTH,
    LayerCacheSchema,
    SchemaSystem,
    blocks_held,
    compute_block_budget,
    document_tail,
    floor_block_budget,
    layer_schedule,
    schema_bytes,
    schema_config,
)

SCHEMA_SCHEMA = "kvproof/schema/1"
BUDGETS = ((4, 1), (128, 1), (128 * 1024, 8), (1_000_000, 8), (1_000_000, 64))
"""(context, requests) whose budgets are shown."""


def schema_facts(config: ModelConfig) -> dict[str, Any]:
    """Entries, tails and bytes of each kind of layer, and some block budgets."""
    system = SchemaSystem(config)
    return {
        "schema": SCHEMA_SCHEMA,
        "configuration": config.name,
        "block_tokens": BLOCK_SIZE_ORIGINAL_TOKENS,
        "draft_tokens": config.draft_tokens,
        "kinds": [_kind(kind, schema, system) for kind, schema in system.kinds.items()],
        "budgets": [_budget(config, context, requests) for context, requests in BUDGETS],
    }


def _kind(kind: str, schema: LayerCacheSchema, system: SchemaSystem) -> dict[str, Any]:
    sizes = {name: schema_bytes(schema, entry, INDEXER_FORMATS["fp8"]) for name, entry in ENTRY_FORMATS.items()}
    one = next(iter(sizes.values()))
    return {
        "kind": kind,
        "layers": system.layers_of(kind),
        "entries_per_block": schema.entries_per_block,
        "indexer_entries_per_block": schema.indexer_entries_per_block,
        "window_slots": schema.window_slots,
        "tail": schema.tail_buffer_size,
        "document_tail": document_tail(schema.ratio) if schema.entries_per_block else 0,
        "block_bytes": {name: size.block for name, size in sizes.items()},
        "indexer_block_bytes": one.indexer_block,
        "window_bytes": {name: size.window for name, size in sizes.items()},
        "tail_bytes": one.tail + one.indexer_tail,
    }


def _budget(config: ModelConfig, context: int, requests: int) -> dict[str, Any]:
    schedule, model = layer_schedule(config), schema_config(config)
    ratios = {"csa": model.csa_compression_ratio, "hca": model.hca_compression_ratio}
    blocks = compute_block_budget(model, schedule, context, requests, TENTH)
    return {
        "context": context,
        "requests": requests,
        "held": {name: requests * blocks_held(context, ratios[name], model.block_tokens) for name in blocks},
        "blocks": blocks,
        "floor_formula": floor_block_budget(model.block_tokens, context, requests),
    }


def print_schema(facts: dict[str, Any], console: Console) -> None:
    """Print what :func:`schema_facts` returned."""
    console.print(
        f"[bold]{facts['configuration']}[/bold]: blocks of {facts['block_tokens']} original tokens, "
        f"{facts['draft_tokens']} draft token(s) a step\n"
    )
    _print_kinds(facts, console)
    _print_bytes(facts, console)
    _print_budgets(facts, console)


def _table(title: str, left: list[str], right: list[str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in left:
        table.add_column(name)
    for name in right:
        table.add_column(name, justify="right")
    return table


def _print_kinds(facts: dict[str, Any], console: Console) -> None:
    columns = ["layers", "entries a block", "indexer keys", "window ring", "tail", "public tail"]
    table = _table("Entries", ["kind"], columns)
    for kind in facts["kinds"]:
        names = (
            "layers",
            "entries_per_block",
            "indexer_entries_per_block",
            "window_slots",
            "tail",
            "document_tail",
        )
        table.add_row(kind["kind"], *(f"{kind[name]:,}" for name in names))
    console.print(table)


def _print_bytes(facts: dict[str, Any], console: Console) -> None:
    formats = list(ENTRY_FORMATS)
    table = _table("Bytes of one layer", ["kind", "of"], formats)
    for kind in facts["kinds"]:
        for name, what in (("block_bytes", "a block"), ("window_bytes", "a window")):
            if any(kind[name].values()):
                table.add_row(kind["kind"], what, *(f"{kind[name][f]:,}" for f in formats))
        for name, what in (("indexer_block_bytes", "a block's indexer keys"), ("tail_bytes", "a tail")):
            if kind[name]:
                table.add_row(kind["kind"], what, f"{kind[name]:,}")
    console.print(table)


def _print_budgets(facts: dict[str, Any], console: Console) -> None:
    names = list(facts["budgets"][0]["blocks"])
    columns = ["requests", *(f"{n} held" for n in names), *(f"{n} budget" for n in names), "floor formula"]
    table = _table("Block budgets with a tenth of headroom", ["longest context"], columns)
    for row in facts["budgets"]:
        short = any(row["floor_formula"] < held for held in row["held"].values())
        table.add_row(
            f"{row['context']:,}",
            f"{row['requests']:,}",
            *(f"{row['held'][n]:,}" for n in names),
            *(f"{row['blocks'][n]:,}" for n in names),
            f"{row['floor_formula']:,}" + (" (short)" if short else ""),
        )
    console.print(table)
