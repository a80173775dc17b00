"""Limits of the cache schema and of the scratch plans: the last value that proves, the next one refuted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from kvproof.harness.prove.discharge import Solvers
from kvproof.harness.prove.limits import Limit, Search, search_limit
from kvproof.harness.prove.subject import Subject
from kvproof.harness.prove.systems import schema_subject, scratch_subject
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.models.index import INT32_MAX, Condition
from kvproof.models.schema import (
    INDEXER_FORMATS,
    LayerCacheSchema,
    SchemaSystem,
    blocks_held,
    floor_block_budget,
    page_layout,
    smallest_tail,
)
from kvproof.models.scratch import CHUNKS, Dims, ScratchPlan
from kvproof.properties.layouts.schema_tail import tail_survives, window_survives
from kvproof.properties.statement import Chooser

MOST_KEYS = 2**24
"""Compressed keys up to which a scratch limit is looked for."""


def schema_limits(config: ModelConfig, solvers: Solvers) -> Iterator[Limit]:
    """Derived limits of a configuration's cache schema."""
    subject, system = schema_subject(config), SchemaSystem(config)
    for kind in system.compressed:
        schema = system.kinds[kind]

        def survives(_system: Any, choose: Chooser, limit: int, schema: LayerCacheSchema = schema) -> Condition:
            return tail_survives(choose, schema.ratio, schema.overlap, schema.draft_tokens, limit)

        need = int(smallest_tail(schema.ratio, schema.overlap, schema.draft_tokens))
        words = (
            f"{kind} tail: ratio {schema.ratio}, {schema.pooled_positions} pooled, {schema.draft_tokens} drafts"
        )
        search = Search(survives, True, 0, 2 * need + 4, need)
        yield search_limit(words, subject, search, solvers, "places", schema.tail_buffer_size)
    window, drafts = config.sliding_window, config.draft_tokens

    def ring(_system: Any, choose: Chooser, limit: int) -> Condition:
        return window_survives(choose, window, drafts, limit)

    search = Search(ring, True, 1, 2 * (window + drafts), window + drafts)
    words = f"window ring: {window} positions, {drafts} drafts"
    yield search_limit(words, subject, search, solvers, "places", system.kinds[system.compressed[0]].window_slots)
    yield from _budget_limits(subject, system, solvers)
    yield from _offset_limits(subject, system, solvers)


def _budget_limits(subject: Any, system: SchemaSystem, solvers: Solvers) -> Iterator[Limit]:
    block = system.kinds[system.compressed[0]].block_tokens
    for kind in system.compressed:
        ratio = system.kinds[kind].ratio
        if ratio == block:
            continue  # an entry is a whole block, so the floor loses nothing

        def reaches(_system: Any, choose: Chooser, limit: int, ratio: int = ratio) -> Condition:
            context = choose.integer("context", limit, INT32_MAX)
            held = blocks_held(context, ratio, block)
            return floor_block_budget(block, context, 1) >= held

        search = Search(reaches, True, 0, 100 * block, 10 * block)
        name = f"{kind}: context from which the public budget is never short for one request"
        yield search_limit(name, subject, search, solvers, "tokens", None)


def _offset_limits(subject: Any, system: SchemaSystem, solvers: Solvers) -> Iterator[Limit]:
    schema = system.kinds.get("CSA")
    if schema is None:
        return
    page = page_layout(INDEXER_FORMATS["fp8"], schema.entries_per_block)

    def fits(_system: Any, choose: Chooser, limit: int) -> Condition:
        block = choose.integer("block", 0, limit - 1)
        place = choose.integer("place", 0, page.entries - 1)
        return page.scale_offset(block, place) + page.scale_bytes - 1 <= INT32_MAX

    guess = (INT32_MAX + 1) // int(page.stride)
    search = Search(fits, False, 0, 2 * guess, guess)
    yield search_limit("indexer cache: blocks for int32 byte offsets", subject, search, solvers, "blocks", None)


def scratch_limits(share: Dims, solvers: Solvers) -> Iterator[Limit]:
    """Derived limits of a rank's scratch plans; of a family of fixed top-k, as if that could be wider."""
    free = Dims(replace(share.family, wider_topk=True), share.tp)
    subject = Subject(share.name, "scratch", (), lambda _sizes: free, describe=scratch_subject(share).describe)
    most = share.family.max_tokens

    def fits(dims: Dims, choose: Chooser, limit: int) -> Condition:
        chunk = choose.pick("chunk", CHUNKS)
        plan = ScratchPlan(dims.widened(choose.integer("topk", 1, limit)), most, chunk)
        return plan.total_bytes <= INT32_MAX + 1

    search = Search(fits, False, 1, MOST_KEYS, 8192)
    name = f"compressed keys for int32 byte offsets with {most} tokens"
    yield search_limit(name, subject, search, solvers, "keys", share.topk)
