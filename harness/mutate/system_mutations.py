"""Faults planted in the cache schema and in the scratch plans, and the faulty systems that follow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kvproof.harness.mutate.patched import Patch, patched
from kvproof.harness.prove.discharge import Solvers
from kvproof.harness.prove.statement_proof import StatementProof, prove_statement
from kvproof.harness.prove.subject import Subject
from kvproof.harness.solve.backends import backend

COPIED = ("models.schema", "models.scratch", "properties.layouts", "properties.statement")
"""What a faulty system copies. The statements too, since they build pages, tails and plans of their own."""

TAIL = "models.schema.tail"
BUDGET = "models.schema.budget"
FORMATS = "models.schema.formats"
LAYERS = "models.schema.layers"
LAYOUT = "models.scratch.layout"
DIMS = "models.scratch.dims"
PLAN = "models.scratch.plan"
TAGS = "models.scratch.tags"


@dataclass(frozen=True)
class SystemMutation:
    """One fault.

    Attributes:
        name: unique, shown in reports.
        words: the mistake.
        system: "schema" or "scratch".
        subject: name of the system that it is looked for in.
        statement: the statement that fails.
        patch: the changed text.
    """

    name: str
    words: str
    system: str
    subject: str
    statement: str
    patch: Patch


def _schema(name: str, words: str, statement: str, module: str, old: str, new: str) -> SystemMutation:
    return SystemMutation(name, words, "schema", "v4-pro-mtp1", statement, Patch(module, old, new))


def _scratch(
    name: str, words: str, statement: str, module: str, old: str, new: str, subject: str = "v4-pro-tp8"
) -> SystemMutation:
    return SystemMutation(name, words, "scratch", subject, statement, Patch(module, old, new))


_SCHEMA_FAULTS = [
    _schema(
        "capacity in rows of another class",
        "an HCA block is taken to hold as many entries as a CSA block",
        "page/entry in a block",
        LAYERS,
        "entries = block_tokens // ratio",
        "entries = block_tokens // 4",
    ),
    _schema(
        "rows counted in tokens",
        "a block is taken to hold an entry for every token",
        "page/entry in a block",
        LAYERS,
        "entries = block_tokens // ratio",
        "entries = block_tokens",
    ),
    _schema(
        "scales over the data",
        "scale records start one data record early",
        "page/records apart",
        FORMATS,
        "self.entries * self.data_bytes + place * self.scale_bytes",
        "(self.entries - 1) * self.data_bytes + place * self.scale_bytes",
    ),
    _schema(
        "interleaved without the scale",
        "interleaved data records are as far apart as if there were no scales between them",
        "page/records apart",
        FORMATS,
        "record = self.data_bytes + self.scale_bytes if self.interleaved else self.data_bytes",
        "record = self.data_bytes",
    ),
    _schema(
        "scales past the page",
        "scale records start one entry late",
        "page/record inside",
        FORMATS,
        "self.entries * self.data_bytes + place * self.scale_bytes",
        "(self.entries + 1) * self.data_bytes + place * self.scale_bytes",
    ),
    _schema(
        "payload without scales",
        "a page is taken to hold data records only",
        "page/record inside",
        FORMATS,
        "return self.entries * (self.data_bytes + self.scale_bytes)",
        "return self.entries * self.data_bytes",
    ),
    _schema(
        "place as block",
        "a slot's block and place are exchanged",
        "page/writer and reader",
        FORMATS,
        "return slot // self.entries, slot % self.entries",
        "return slot % self.entries, slot // self.entries",
    ),
    _schema(
        "conversion without the place",
        "an entry keeps its place under another block size",
        "blocks/there and back",
        FORMATS,
        "return entry // entries_to, entry % entries_to",
        "return entry // entries_to, place",
    ),
    _schema(
        "tail without overlap",
        "the tail holds ratio - 1 positions though entries pool twice the ratio",
        "tail/holds",
        TAIL,
        "return 2 * ratio if overlap else ratio",
        "return ratio",
    ),
    _schema(
        "tail without drafts",
        "the tail leaves no place for rejected drafts",
        "tail/holds",
        TAIL,
        "select(pooled >= 2, pooled - 1 + draft_tokens, 0)",
        "select(pooled >= 2, pooled - 1, 0)",
    ),
    _schema(
        "tail of one place too many",
        "the tail is longer than needed",
        "tail/no smaller",
        TAIL,
        "select(pooled >= 2, pooled - 1 + draft_tokens, 0)",
        "select(pooled >= 2, pooled + draft_tokens, 0)",
    ),
    _schema(
        "window without drafts",
        "the window ring has no place for drafts",
        "window/holds",
        LAYERS,
        "return self.swa_window_size + self.draft_tokens",
        "return self.swa_window_size",
    ),
    _schema(
        "budget rounded down",
        "a request's last block, partly filled, is not counted",
        "budget/held exactly",
        BUDGET,
        "return cdiv(tokens // ratio, block_tokens // ratio)",
        "return tokens // block_tokens",
    ),
    _schema(
        "headroom truncated",
        "a share of a block is no block",
        "budget/headroom",
        BUDGET,
        "return cdiv(held * self.extra, self.of)",
        "return held * self.extra // self.of",
    ),
    _schema(
        "headroom of one block more",
        "the share is rounded up past a whole block",
        "budget/minimal",
        BUDGET,
        "return cdiv(held * self.extra, self.of)",
        "return held * self.extra // self.of + 1",
    ),
    _schema(
        "budget of all but one",
        "one request's blocks are not counted",
        "budget/reach",
        BUDGET,
        "full = max_concurrent_requests * blocks_held(",
        "full = (max_concurrent_requests - 1) * blocks_held(",
    ),
    _schema(
        "block with its padding missing",
        "a row of the two planes is taken without its unused bytes",
        "row space/block",
        FORMATS,
        "2 * _TILES, 512 - _NOPE - 2 * _TILES)",
        "2 * _TILES, 0)",
    ),
]

_SCRATCH_FAULTS = [
    _scratch(
        "back inside front",
        "the back kernel's regions start at the last aligned byte before the front's end",
        "scratch/back past front",
        PLAN,
        "return round_up(layout_end(front_scratch(s, d)), ALIGN_BYTES)",
        "return layout_end(front_scratch(s, d)) // ALIGN_BYTES * ALIGN_BYTES",
    ),
    _scratch(
        "back from zero",
        "the back kernel's regions lie over the front's",
        "scratch/back past front",
        PLAN,
        "return round_up(layout_end(front_scratch(s, d)), ALIGN_BYTES)",
        "return 0 * s",
    ),
    _scratch(
        "end at the last region's start",
        "the buffer's end leaves out the last region",
        "scratch/inside",
        LAYOUT,
        "end = maximum(end, offset + nbytes)",
        "end = maximum(end, offset)",
    ),
    _scratch(
        "regions aligned down",
        "a region starts at the aligned byte before the end of the one before",
        "scratch/regions apart",
        LAYOUT,
        "offset = round_up(end, align)",
        "offset = end // align * align",
    ),
    _scratch(
        "regions not aligned",
        "a region starts where the one before ends",
        "scratch/aligned",
        LAYOUT,
        "offset = round_up(end, align)",
        "offset = end",
    ),
    _scratch(
        "flag of four bytes",
        "a flag is a 32-bit word without room for its tag",
        "scratch/flags whole",
        LAYOUT,
        "PAIR_BYTES = 8",
        "PAIR_BYTES = 4",
    ),
    _scratch(
        "pages of 1024",
        "the total is rounded up to too small a multiple",
        "scratch/inside",
        PLAN,
        "return round_up(layout_end(self.layout), TOTAL_ALIGN_BYTES)",
        "return round_up(layout_end(self.layout), 1024)",
    ),
    _scratch(
        "chunks rounded down",
        "the last, partly filled chunk is left out",
        "scratch/chunks",
        PLAN,
        "cdiv(keys, CHUNKS[0]), cdiv(keys, CHUNKS[1])",
        "keys // CHUNKS[0], keys // CHUNKS[1]",
    ),
    _scratch(
        "chunks of 96",
        "a chunk that no kernel takes",
        "scratch/chunks",
        PLAN,
        "return CHUNKS[1]\n",
        "return 96\n",
    ),
    _scratch(
        "a code for every 64 elements",
        "the query's scale codes are half as many as its groups",
        "scratch/codes",
        PLAN,
        '("group", d.q_rows // GROUP)',
        '("group", d.q_rows // (2 * GROUP))',
    ),
    _scratch(
        "a flag for every head",
        "the combine stage has a flag a head, where eight share one",
        "scratch/codes",
        PLAN,
        '("heads", d.heads // HEADS_PER_FLAG)',
        '("heads", d.heads)',
    ),
    _scratch(
        "heads before chunks",
        "partials are laid out head by head, as no publisher writes them",
        "scratch/both sides",
        PLAN,
        'Region("part", (s, c, h, ("dim", HEAD_DIM))',
        'Region("part", (s, h, c, ("dim", HEAD_DIM))',
    ),
    _scratch(
        "statistics apart",
        "maxima and sums are two tables, where they are published in pairs",
        "scratch/both sides",
        PLAN,
        'Region("pstat", (s, c, h, ("stat", 2))',
        'Region("pstat", (s, ("stat", 2), c, h)',
    ),
    _scratch(
        "column major",
        "an element's number takes the first coordinate as the fastest",
        "scratch/both sides",
        LAYOUT,
        "number = number * size + index",
        "number = number + index * size",
    ),
    _scratch(
        "heads of all ranks",
        "a rank counts the model's heads as its own",
        "scratch/whole ranks",
        DIMS,
        'return _split("heads", self.family.heads, self.tp, "tp")',
        "return self.family.heads",
    ),
    _scratch(
        "groups of all ranks",
        "a rank counts the model's output groups as its own",
        "scratch/whole ranks",
        DIMS,
        'return _split("groups", self.family.groups, self.tp, "tp")',
        "return self.family.groups",
    ),
    _scratch(
        "tag of seven bits",
        "tags come again after 127 launches",
        "scratch/launch tags",
        TAGS,
        "return launch % TAG_PERIOD + 1",
        "return launch % 127 + 1",
    ),
    _scratch(
        "tag zero",
        "the first launch's tag is what fresh memory holds",
        "scratch/launch tags",
        TAGS,
        "return launch % TAG_PERIOD + 1",
        "return launch % TAG_PERIOD",
    ),
]

FAULTS: Mapping[str, SystemMutation] = {fault.name: fault for fault in (*_SCHEMA_FAULTS, *_SCRATCH_FAULTS)}
"""By name."""


@contextmanager
def mutant_system(mutation: SystemMutation) -> Iterator[tuple[Any, Any]]:
    """(the faulty system, the statement as it speaks of it)."""
    with patched(COPIED, (mutation.patch,)) as module:
        package = module(f"models.{mutation.system}")
        system = getattr(package, f"{mutation.system}_systems")()[mutation.subject]
        yield system, module("properties.statement").all_statements(mutation.system)[mutation.statement]


def prove_mutant_system(mutation: SystemMutation, solver: str = "z3") -> StatementProof:
    """Try to prove the statement of the faulty system."""
    with mutant_system(mutation) as (system, statement):
        subject = Subject(mutation.subject, mutation.system, (), lambda _sizes: system)
        return prove_statement(subject, statement, Solvers([backend(solver)]))
