"""Block budgets: what they guarantee, that none smaller does, and what the public formula is short of."""

from __future__ import annotations

from kvproof.models.index import INT32_MAX, Condition, IndexValue, implies, negate, within
from kvproof.models.schema import (
    NO_HEADROOM,
    TENTH,
    Headroom,
    SchemaSystem,
    block_budget,
    blocks_held,
    floor_block_budget,
    keeps_headroom,
    reaches,
)
from kvproof.properties.statement import Chooser, Needs, statement

HEADROOMS = {"none": NO_HEADROOM, "a tenth": TENTH, "a third": Headroom(1, 3)}
MOST = INT32_MAX
BLOCKS = (128, 256)


def choose_block(system: SchemaSystem, choose: Chooser) -> tuple[IndexValue, IndexValue]:
    """(ratio, block tokens) of a layer at either block size."""
    ratio = system.kinds[choose.pick("kind", system.compressed)].ratio
    return ratio, choose.pick("block tokens", BLOCKS)


def choose_context(choose: Chooser, block_tokens: IndexValue) -> IndexValue:
    """Any longest context; an enumeration visits the first blocks."""
    return choose.integer("context", 0, MOST, few=2 * block_tokens + 1)


def same(a: Condition, b: Condition) -> Condition:
    """Both hold or neither does."""
    return (a & b) | (negate(a) & negate(b))


@statement(
    "budget/held grows",
    "A longer request never holds fewer blocks, and one token adds at most one block.",
    system="schema",
    needs=Needs(50, {"several blocks": 10}),
    twin="one token adds no block",
)
def held_grows(system: SchemaSystem, choose: Chooser, slip: int = 0) -> Condition:
    ratio, block = choose_block(system, choose)
    tokens = choose_context(choose, block)
    fewer, more = blocks_held(tokens, ratio, block), blocks_held(tokens + 1, ratio, block)
    choose.event("several blocks", fewer >= 2)
    return (fewer <= more) & (more <= fewer + 1 - slip)


@statement(
    "budget/held exactly",
    "The blocks that a request holds have a place for each of its entries, and with one block fewer one has none.",
    system="schema",
    needs=Needs(50, {"partial block": 10}),
    twin="with one block fewer too",
)
def held_exactly(system: SchemaSystem, choose: Chooser, slip: int = 0) -> Condition:
    ratio, block = choose_block(system, choose)
    tokens = choose_context(choose, block)
    held, places = blocks_held(tokens, ratio, block), block // ratio
    entries = tokens // ratio
    choose.event("partial block", entries % places != 0)
    return ((held - slip) * places >= entries) & ((held - 1) * places < entries)


@statement(
    "budget/eager",
    "An allocator that takes a block with its first token holds as many blocks, or one more.",
    system="schema",
    needs=Needs(50, {"one more": 5}),
    twin="as many blocks",
)
def eager_holds_more(system: SchemaSystem, choose: Chooser, slip: int = 0) -> Condition:
    ratio, block = choose_block(system, choose)
    tokens = choose_context(choose, block)
    extra = blocks_held(tokens, ratio, block, eager=True) - blocks_held(tokens, ratio, block)
    choose.event("one more", extra == 1)
    return within(extra, 0, 2 - slip)


@statement(
    "budget/reach",
    "While fewer than N requests hold blocks, each for at most L tokens, one more reaches any length up to L.",
    system="schema",
    needs=Needs(50, {"last request": 5, "longest request": 5}),
    twin="one entry past L",
)
def budget_reaches(system: SchemaSystem, choose: Chooser, slip: int = 0) -> Condition:
    ratio, block = choose_block(system, choose)
    context = choose_context(choose, block)
    requests = choose.integer("requests", 1, MOST, few=2)
    others = choose.integer("others", 0, requests - 1)
    each = blocks_held(context, ratio, block)
    # Induction over the requests: what the others hold in all is at most `each` for every one of them.
    held = choose.integer("held by others", 0, others * each, few=3)
    tokens = choose.integer("tokens", 0, context + slip * ratio, few=block + 1)
    choose.event("last request", others == requests - 1)
    choose.event("longest request", tokens == context)
    now = blocks_held(tokens, ratio, block)
    choose.lemma("none holds more than the longest", implies(tokens <= context, now <= each))
    choose.lemma("requests in all", (others + 1) * each <= requests * each)
    budget = block_budget(ratio, block, context, requests, NO_HEADROOM)
    return (held + now <= (others + 1) * each) & (held + now <= budget)


@statement(
    "budget/headroom",
    "With every request at its longest, the budget covers what they hold and leaves the share free besides.",
    system="schema",
    needs=Needs(50, {"share is no whole block": 5}),
    twin="one block fewer",
)
def budget_keeps_headroom(system: SchemaSystem, choose: Chooser, slip: int = 0) -> Condition:
    ratio, block = choose_block(system, choose)
    headroom = HEADROOMS[choose.pick("headroom", tuple(HEADROOMS))]
    context, requests = choose_context(choose, block), choose.integer("requests", 0, MOST, few=3)
    full = requests * blocks_held(context, ratio, block)
    choose.lemma("no request holds fewer than no blocks", full >= 0)
    choose.event("share is no whole block", (full * headroom.extra) % headroom.of != 0)
    budget = block_budget(ratio, block, context, requests, headroom) - slip
    return reaches(budget, full) & keeps_headroom(budget, full, headroom)


@statement(
    "budget/minimal",
    "Whatever count of blocks gives reach and headroom is at least the budget.",
    system="schema",
    needs=Needs(50, {"exactly the budget": 1}),
    twin="at least one more",
)
def budget_minimal(system: SchemaSystem, choose: Chooser, slip: int = 0) -> Condition:
    ratio, block = choose_block(system, choose)
    headroom = HEADROOMS[choose.pick("headroom", tuple(HEADROOMS))]
    context, requests = choose_context(choose, block), choose.integer("requests", 0, MOST, few=3)
    full = requests * blocks_held(context, ratio, block)
    budget = block_budget(ratio, block, context, requests, headroom)
    other = choose.integer("blocks", 0, 2**64, few=7)
    choose.event("exactly the budget", other == budget)
    enough = reaches(other, full) & keeps_headroom(other, full, headroom)
    return implies(enough, other >= budget + slip)


@statement(
    "budget/floor formula short",
    "The public formula is short of blocks exactly when the last block holds an entry and there are at most ten.",
    system="schema",
    needs=Needs(50, {"short": 5, "headroom makes up for it": 1}),
    twin="the last block holds an entry one token earlier",
)
def floor_formula_short(system: SchemaSystem, choose: Chooser, slip: int = 0) -> Condition:
    ratio, block = choose_block(system, choose)
    context = choose.integer("context", 0, MOST, few=11 * block)
    requests = choose.integer("requests", 1, MOST, few=1)
    lost, full = context % block >= ratio, context // block
    held = blocks_held(context, ratio, block)
    # held == full + 1 if the last block holds an entry, else full: the products below need no more than this.
    choose.lemma("blocks held", (held == full) & negate(lost) | (held == full + 1) & lost)
    product = requests * full
    choose.lemma("few full blocks", implies(full <= 9, product <= 9 * requests))
    choose.lemma("many full blocks", implies(full >= 10, product >= 10 * requests))
    short = negate(reaches(floor_block_budget(block, context, requests), requests * held))
    choose.event("short", short)
    choose.event("headroom makes up for it", lost & negate(short))
    return same(short, (context % block >= ratio - slip) & (full < 10))


@statement(
    "budget/floor formula headroom",
    "The public formula leaves a tenth free exactly if no block is lost and the blocks are a multiple of ten.",
    system="schema",
    needs=Needs(50, {"a tenth is free": 1}),
    twin="a multiple of five is enough",
)
def floor_formula_headroom(system: SchemaSystem, choose: Chooser, slip: int = 0) -> Condition:
    ratio, block = choose_block(system, choose)
    context = choose.integer("context", 0, MOST, few=10 * block)
    requests = choose.integer("requests", 1, MOST, few=1)
    lost, full = context % block >= ratio, context // block
    held = blocks_held(context, ratio, block)
    choose.lemma("blocks held", (held == full) & negate(lost) | (held == full + 1) & lost)
    choose.lemma(
        "all blocks held",
        (requests * held == requests * full) & negate(lost)
        | (requests * held == requests * full + requests) & lost,
    )
    budget = floor_block_budget(block, context, requests)
    kept = reaches(budget, requests * held) & keeps_headroom(budget, requests * held, TENTH)
    choose.event("a tenth is free", kept)
    return same(kept, negate(lost) & ((requests * full) % (10 - 5 * slip) == 0))
