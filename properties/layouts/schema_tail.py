"""What one step needs of the rings: the tail of uncompressed positions, and the window.

A step decodes positions first .. first + k; after it a number of them counts, and the next step starts behind
those. The ring then holds what the step wrote last, rejected drafts included.
"""

from __future__ import annotations

from kvproof.models.index import INT32_MAX, Condition, IndexValue, maximum, negate
from kvproof.models.schema import (
    SchemaSystem,
    document_tail,
    ring_holds,
    smallest_tail,
)
from kvproof.properties.statement import Chooser, Needs, statement


def choose_sizes(system: SchemaSystem, choose: Chooser) -> tuple[IndexValue, bool, IndexValue]:
    """(ratio, overlap, draft tokens) of a layer as served, or any."""
    if choose.pick("sizes", ("as served", "any")) == "as served":
        schema = system.kinds[choose.pick("kind", system.compressed)]
        return schema.ratio, schema.overlap, schema.draft_tokens
    overlap = choose.pick("overlap", (False, True))
    return choose.integer("ratio", 1, INT32_MAX, few=3), overlap, choose.integer("drafts", 0, INT32_MAX, few=2)


def first_pooled(last: IndexValue, ratio: IndexValue, overlap: bool) -> IndexValue:
    """First position that the entry completed at ``last`` pools: of its own group, or of the group before.

    Stated here anew, from groups, so that the model's own count of pooled positions is checked against it.
    """
    group = last - ratio + 1
    return maximum(group - ratio if overlap else group, 0)


def tail_survives(
    choose: Chooser, ratio: IndexValue, overlap: bool, drafts: IndexValue, size: IndexValue
) -> Condition:
    """A ring of ``size`` places holds what the step after any step pools and no longer has as input."""
    first = choose.integer("first", 0, INT32_MAX, few=4 * ratio)
    accepted = choose.integer("accepted", 0, drafts)
    start = first + 1 + accepted
    last = choose.integer("last", start, start + drafts)
    position = choose.integer("position", first_pooled(last, ratio, overlap), start - 1)
    choose.event("all drafts rejected", (accepted == 0) & (drafts >= 1))
    choose.event("oldest", position == first_pooled(last, ratio, overlap))
    return ring_holds(size, first + drafts, position)


@statement(
    "tail/holds",
    "The tail holds every position that the next step's entries pool and that this step's input no longer has.",
    system="schema",
    needs=Needs(100, {"all drafts rejected": 10, "prefill": 10, "oldest": 10}),
    twin="one place fewer",
)
def tail_holds(system: SchemaSystem, choose: Chooser, slip: int = 0) -> Condition:
    ratio, overlap, drafts = choose_sizes(system, choose)
    prefill = choose.pick("step", ("decode", "prefill")) == "prefill"
    choose.event("prefill", prefill)
    # The last token of a prompt's chunk counts and nothing was written behind it: as a step without drafts.
    drafts = 0 if prefill else drafts
    return tail_survives(choose, ratio, overlap, drafts, smallest_tail(ratio, overlap, drafts) - slip)


@statement(
    "tail/no smaller",
    "A ring of one place fewer loses a position that the next step's entry pools.",
    system="schema",
    needs=Needs(50, {"overlapping": 10, "with drafts": 10}),
    twin="the tail's own size",
)
def tail_no_smaller(system: SchemaSystem, choose: Chooser, slip: int = 0) -> Condition:
    ratio, overlap, drafts = choose_sizes(system, choose)
    choose.assume((ratio >= 2) | overlap)
    choose.event("overlapping", overlap)
    choose.event("with drafts", drafts >= 1)
    # The witness: every draft is rejected, and the very next token completes an entry.
    entry = choose.integer("entry", 1, INT32_MAX, few=2)
    last = entry * ratio + ratio - 1
    oldest = first_pooled(last, ratio, overlap)
    choose.lemma("the oldest exists, and comes from the ring", (oldest >= 0) & (oldest <= last - 1))
    written = last - 1 + drafts
    return negate(ring_holds(smallest_tail(ratio, overlap, drafts) - 1 + slip, written, oldest))


@statement(
    "tail/document",
    "The public schema's ratio - 1 places hold what an entry pools, without overlap and without draft tokens.",
    system="schema",
    needs=Needs(50, {"oldest": 5}),
    twin="one draft token",
)
def tail_of_the_document(system: SchemaSystem, choose: Chooser, slip: int = 0) -> Condition:  # noqa: ARG001
    ratio = choose.integer("ratio", 1, INT32_MAX, few=4)
    first = choose.integer("first", 0, INT32_MAX, few=2 * ratio)
    start = first + 1
    position = choose.integer("position", maximum(start - ratio + 1, 0), start - 1)
    choose.event("oldest", position == start - ratio + 1)
    return ring_holds(document_tail(ratio), first + slip, position)


@statement(
    "tail/document with overlap",
    "With overlap the public schema's tail loses a position of every entry but the first.",
    system="schema",
    needs=Needs(50, {"second entry": 1}),
    twin="the first entry too",
)
def tail_of_the_document_overlapping(system: SchemaSystem, choose: Chooser, slip: int = 0) -> Condition:  # noqa: ARG001
    ratio = choose.integer("ratio", 1, INT32_MAX, few=4)
    entry = choose.integer("entry", 1 - slip, INT32_MAX, few=2)
    last = entry * ratio + ratio - 1
    choose.event("second entry", entry == 1)
    return negate(ring_holds(document_tail(ratio), last - 1, first_pooled(last, ratio, overlap=True)))


@statement(
    "window/holds",
    "The window ring holds what every token of a step reads, though the step's drafts are written before.",
    system="schema",
    needs=Needs(50, {"first token of the step": 5, "full window": 5}),
    twin="one place fewer",
)
def window_holds(system: SchemaSystem, choose: Chooser, slip: int = 0) -> Condition:
    if choose.pick("sizes", ("as served", "any")) == "as served":
        schema = system.kinds[choose.pick("kind", tuple(system.kinds))]
        window, drafts, slots = schema.swa_window_size, schema.draft_tokens, schema.window_slots
    else:
        window = choose.integer("window", 1, INT32_MAX, few=3)
        drafts = choose.integer("drafts", 0, INT32_MAX, few=2)
        slots = window + drafts
    return window_survives(choose, window, drafts, slots - slip)


def window_survives(choose: Chooser, window: IndexValue, drafts: IndexValue, size: IndexValue) -> Condition:
    """A ring of ``size`` places holds the window of every token of a step whose tokens are all written before."""
    first = choose.integer("first", 0, INT32_MAX, few=window + 1)
    token = choose.integer("token", first, first + drafts)
    position = choose.integer("position", maximum(token - window + 1, 0), token)
    choose.event("first token of the step", token == first)
    choose.event("full window", token >= window - 1)
    return ring_holds(size, first + drafts, position)
