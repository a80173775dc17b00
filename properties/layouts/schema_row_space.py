"""Where the cache schema and the row space describe one thing, they agree."""

from __future__ import annotations

from kvproof.models.index import INT32_MAX, Condition
from kvproof.models.row_space import DENSE_RATIO
from kvproof.models.schema import (
    ENTRY_FORMATS,
    INDEXER_FORMATS,
    AttentionType,
    SchemaSystem,
    convert_place,
    layer_schema,
    oldest_pooled,
    ring_holds,
    schema_bytes,
    schema_config,
)
from kvproof.properties.statement import Chooser, Needs, statement

ROW_FORMATS = {"fp8": "planes", "bf16": "bf16"}
"""The entry format that a row's planes together are, by KV dtype."""


@statement(
    "row space/entry",
    "An entry's place by the schema's blocks, converted to the pool's, is its compressed row in the row space.",
    system="schema",
    needs=Needs(50, {"second half of the pool's block": 5}),
    twin="one row further",
)
def entry_row(system: SchemaSystem, choose: Chooser, slip: int = 0) -> Condition:
    kind = choose.pick("kind", system.compressed)
    schema, rows = system.kinds[kind], system.pool.rows_of(system.row_space_ratio(kind))
    entry = choose.integer("entry", 0, INT32_MAX, few=3 * rows.block_rows)
    block, place = schema.locate(entry)
    choose.event("second half of the pool's block", block % 2 == 1)
    pool_block, row = convert_place(block, place, schema.entries_per_block, rows.block_rows)
    # Block table: the sequence's column is its own block, so that only the row in it is compared.
    index = system.pool.compress_row(rows.ratio, pool_block, row)
    expected = entry // rows.block_rows * system.pool.envelope_rows + entry % rows.block_rows
    return index == expected + slip


@statement(
    "row space/block",
    "A pool block has as many rows and bytes as its layers' schemas say at the pool's block size.",
    system="schema",
    needs=Needs(20, {"several blocks": 5}),
    twin="one row fewer",
)
def block_of_all_layers(system: SchemaSystem, choose: Chooser, slip: int = 0) -> Condition:
    blocks = choose.integer("blocks", 1, INT32_MAX, few=4)
    choose.event("several blocks", blocks >= 2)
    config, model = schema_config(system.model), system.model
    row = ENTRY_FORMATS[ROW_FORMATS[model.kv]]
    rows = nbytes = 0
    for kind in system.compressed:
        schema = layer_schema(
            AttentionType(kind),
            system.row_space_ratio(kind),
            config=config,
            block_tokens=model.block_size,
        )
        rows += system.layers_of(kind) * schema.entries_per_block
        nbytes += system.layers_of(kind) * schema_bytes(schema, row, INDEXER_FORMATS["fp8"]).block
    row_bytes = sum(plane.row_bytes for plane in model.planes)
    return (blocks * rows - slip == blocks * system.pool.envelope_rows) & (
        blocks * nbytes == blocks * system.pool.block_bytes(row_bytes)
    )


@statement(
    "row space/window",
    "The schema's window ring has the pool's ring positions: a position has one place in both.",
    system="schema",
    needs=Needs(20, {"past the first turn": 5}),
    twin="the window alone, without a place for each draft and one",
)
def window_ring(system: SchemaSystem, choose: Chooser, slip: int = 0) -> Condition:
    schema = system.kinds[choose.pick("kind", tuple(system.kinds))]
    position = choose.integer("position", 0, INT32_MAX, few=2 * schema.window_slots)
    choose.event("past the first turn", position >= schema.window_slots)
    slots = schema.window_slots - slip
    return position % slots == position % system.pool.ring_slots


@statement(
    "row space/state ring",
    "The pool's state ring holds whatever the schema's tail holds, and has exactly one place to spare.",
    system="schema",
    needs=Needs(20, {"oldest": 2}),
    twin="two places to spare",
)
def state_ring(system: SchemaSystem, choose: Chooser, slip: int = 0) -> Condition:
    kind = choose.pick("kind", system.compressed)
    schema, drafts = system.kinds[kind], system.model.draft_tokens
    field = {"CSA": "csa_main_kv", "HCA": "hca_main_kv"}[kind]
    ring = next(f.shape[1] for f in system.model.state_fields() if f.name == field)
    start = choose.integer("start", 1, INT32_MAX, few=2 * ring)
    position = choose.integer("position", oldest_pooled(start, schema.ratio, schema.overlap), start - 1)
    choose.event("oldest", position == start - schema.pooled_positions + 1)
    return ring_holds(ring - 1 - slip, start - 1 + drafts, position) & (ring == schema.tail_buffer_size + 1)


@statement(
    "row space/window-only",
    "A window-only layer has no compressed rows in either description.",
    system="schema",
    needs=Needs(20, {"asked": 20}),
    twin="one entry a block",
)
def window_only(system: SchemaSystem, choose: Chooser, slip: int = 0) -> Condition:
    schema = layer_schema(AttentionType.SWA, 0, config=schema_config(system.model))
    blocks = choose.integer("blocks", 1, INT32_MAX, few=3)
    choose.event("asked")
    dense = system.pool.class_rows.get(DENSE_RATIO)
    rows = 0 if dense is None else dense.block_rows
    return (blocks * (schema.entries_per_block + slip) == blocks * rows) & (schema.tail_buffer_size == 0)
