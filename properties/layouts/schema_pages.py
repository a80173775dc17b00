"""Pages of the paged cache: entries of a block, their records, and other block sizes."""

from __future__ import annotations

from kvproof.models.index import INT32_MAX, Condition, IndexValue, implies, negate, within
from kvproof.models.schema import (
    ENTRY_FORMATS,
    INDEXER_FORMATS,
    EntryFormat,
    PageLayout,
    SchemaSystem,
    convert_place,
)
from kvproof.properties.statement import Chooser, Needs, statement

RECORDS = {
    "packed entry": ENTRY_FORMATS["packed"],
    "fp8 entry": ENTRY_FORMATS["fp8"],
    "indexer key": INDEXER_FORMATS["fp8"],
}
FORMATS = ("data then scales", "interleaved")
MANY = INT32_MAX


def choose_page(choose: Chooser) -> tuple[PageLayout, EntryFormat]:
    """Any page: of any records, in either format, with any number of entries and any padding behind them."""
    record = RECORDS[choose.pick("records", tuple(RECORDS))]
    interleaved = choose.pick("format", FORMATS) == "interleaved"
    entries = choose.integer("entries", 1, MANY, few=3)
    padding = choose.integer("padding", 0, MANY, few=1)
    stride = entries * (record.data_bytes + record.scale_bytes) + padding * record.scale_align
    return PageLayout(entries, record.data_bytes, record.scale_bytes, interleaved, stride), record


def choose_place(choose: Chooser, page: PageLayout, tag: str = "") -> tuple[IndexValue, IndexValue]:
    """Any (block, place) of a page."""
    block = choose.integer(f"block{tag}", 0, MANY, few=2)
    return block, choose.integer(f"place{tag}", 0, page.entries - 1)


def record_span(
    page: PageLayout, part: str, block: IndexValue, place: IndexValue
) -> tuple[IndexValue, IndexValue]:
    """``[start, stop)`` bytes of the data or the scale record of an entry."""
    if part == "data":
        start = page.data_offset(block, place)
        return start, start + page.data_bytes
    start = page.scale_offset(block, place)
    return start, start + page.scale_bytes


@statement(
    "page/entry in a block",
    "All positions of a compressed entry lie in the block that holds the entry.",
    system="schema",
    needs=Needs(50, {"last of its block": 5, "first of its block": 5}),
    twin="one position more",
)
def entry_in_block(system: SchemaSystem, choose: Chooser, slip: int = 0) -> Condition:
    schema = system.kinds[choose.pick("kind", system.compressed)]
    entry = choose.integer("entry", 0, MANY, few=2 * schema.entries_per_block)
    block, place = schema.locate(entry)
    choose.event("first of its block", place == 0)
    choose.event("last of its block", place == schema.entries_per_block - 1)
    position = choose.integer("position", entry * schema.ratio, entry * schema.ratio + schema.ratio - 1 + slip)
    return position // schema.block_tokens == block


@statement(
    "page/entries apart",
    "Two entries of a sequence never share a place of a block.",
    system="schema",
    needs=Needs(50, {"same block": 5}),
    twin="the two entries may be one",
)
def entries_apart(system: SchemaSystem, choose: Chooser, slip: int = 0) -> Condition:
    schema = system.kinds[choose.pick("kind", system.compressed)]
    a = choose.integer("entry", 0, MANY, few=schema.entries_per_block)
    b = choose.integer("other", a + 1 - slip, a + MANY, few=a + schema.entries_per_block + 1)
    (block_a, place_a), (block_b, place_b) = schema.locate(a), schema.locate(b)
    choose.event("same block", block_a == block_b)
    return negate((block_a == block_b) & (place_a == place_b))


@statement(
    "page/record inside",
    "Every data and scale record of a block lies in that block's page.",
    system="schema",
    needs=Needs(50, {"last entry": 5, "scales": 10}),
    twin="a page one byte shorter",
)
def record_inside(system: SchemaSystem, choose: Chooser, slip: int = 0) -> Condition:  # noqa: ARG001
    page, _ = choose_page(choose)
    part = choose.pick("record", ("data", "scales"))
    block, place = choose_place(choose, page)
    choose.event("last entry", place == page.entries - 1)
    choose.event("scales", part == "scales")
    start, stop = record_span(page, part, block, place)
    first = block * page.stride
    # What of the page must lie behind a data record: one scale record, or all of them.
    behind = page.scale_bytes * (1 if page.interleaved else page.entries) if part == "data" else 0
    last = first + page.payload - behind
    return (start >= first) & (stop <= last - slip) & (page.payload <= page.stride)


@statement(
    "page/records apart",
    "No two records of one cache share a byte, whatever their blocks and places.",
    system="schema",
    needs=Needs(100, {"same block": 20, "data against scales": 20, "other block": 20}),
    twin="a data record is one byte longer; two records of a kind may be one",
)
def records_apart(system: SchemaSystem, choose: Chooser, slip: int = 0) -> Condition:  # noqa: ARG001
    page, _ = choose_page(choose)
    part_a, part_b = choose.pick("records a and b", (("data", "data"), ("data", "scales"), ("scales", "scales")))
    block, place = choose_place(choose, page)
    ahead = choose.integer("blocks ahead", 0, MANY, few=1)
    other = choose.integer("other place", 0, page.entries - 1)
    choose.event("same block", ahead == 0)
    choose.event("other block", ahead != 0)
    choose.event("data against scales", part_a != part_b)
    if part_a == part_b and not slip:
        choose.assume((ahead != 0) | (place != other))
    a_start, a_stop = record_span(page, part_a, block, place)
    b_start, b_stop = record_span(page, part_b, block + ahead, other)
    first, second = block * page.stride, (block + ahead) * page.stride
    choose.lemma("a lies in its page", (a_start >= first) & (a_stop <= first + page.payload))
    choose.lemma("b lies in its page", (b_start >= second) & (b_stop <= second + page.payload))
    choose.lemma("pages follow one another", (ahead == 0) | (second >= first + page.stride))
    return (a_stop + slip <= b_start) | (b_stop + slip <= a_start)


@statement(
    "page/records aligned",
    "Data and scale records start at multiples of the scale record's alignment.",
    system="schema",
    needs=Needs(50, {"later block": 10}),
    twin="twice the alignment",
)
def records_aligned(system: SchemaSystem, choose: Chooser, slip: int = 0) -> Condition:  # noqa: ARG001
    page, record = choose_page(choose)
    part = choose.pick("record", ("data", "scales"))
    block, place = choose_place(choose, page)
    choose.event("later block", block >= 1)
    return record_span(page, part, block, place)[0] % (record.scale_align * (1 + slip)) == 0


@statement(
    "page/writer and reader",
    "The writer's address of a slot is the reader's of its block and place, and every slot has one of each.",
    system="schema",
    needs=Needs(50, {"second entry": 5}),
    twin="the reader takes the other format",
)
def writer_and_reader(system: SchemaSystem, choose: Chooser, slip: int = 0) -> Condition:  # noqa: ARG001
    page, record = choose_page(choose)
    reader = page
    if slip:
        reader = PageLayout(page.entries, record.data_bytes, record.scale_bytes, not page.interleaved, page.stride)
    part = choose.pick("record", ("data", "scales"))
    block, place = choose_place(choose, page)
    choose.event("second entry", place >= 1)
    slot = block * page.entries + place
    written_block, written_place = page.locate(slot)
    choose.lemma("a slot names its place", (written_block == block) & (written_place == place))
    writes, reads = (
        record_span(page, part, written_block, written_place),
        record_span(reader, part, block, place),
    )
    return (writes[0] == reads[0]) & (writes[1] == reads[1])


@statement(
    "blocks/there and back",
    "An entry's place under another block size, converted back, is where it was; and both hold the same entry.",
    system="schema",
    needs=Needs(50, {"upper half": 5}),
    twin="blocks of one entry more on the way back",
)
def there_and_back(system: SchemaSystem, choose: Chooser, slip: int = 0) -> Condition:
    schema = system.kinds[choose.pick("kind", system.compressed)]
    small = schema.entries_per_block
    large = small * (system.model.block_size // schema.block_tokens)
    there, back = choose.pick("from and to", ((small, large), (large, small)))
    block = choose.integer("block", 0, MANY, few=3)
    place = choose.integer("place", 0, there - 1)
    choose.event("upper half", block % 2 == 1)
    moved_block, moved_place = convert_place(block, place, there, back)
    again = convert_place(moved_block, moved_place, back, there + slip)
    return (
        within(moved_place, 0, back)
        & (moved_block * back + moved_place == block * there + place)
        & (again[0] == block)
        & (again[1] == place)
    )


@statement(
    "blocks/one page seen as two",
    "An interleaved page without padding is, byte for byte, two pages of half as many entries.",
    system="schema",
    needs=Needs(50, {"upper half": 5}),
    twin="data then scales: the first half's scales lie behind the second half's data",
)
def one_page_as_two(system: SchemaSystem, choose: Chooser, slip: int = 0) -> Condition:  # noqa: ARG001
    record = RECORDS[choose.pick("records", tuple(RECORDS))]
    part = choose.pick("record", ("data", "scales"))
    half = choose.integer("entries", 1, MANY, few=3)
    size = record.data_bytes + record.scale_bytes
    whole = PageLayout(2 * half, record.data_bytes, record.scale_bytes, not slip, 2 * half * size)
    halves = PageLayout(half, record.data_bytes, record.scale_bytes, not slip, half * size)
    block = choose.integer("block", 0, MANY, few=2)
    upper = choose.integer("half", 0, 1)
    place = choose.integer("place", 0, half - 1)
    choose.event("upper half", upper == 1)
    a = record_span(whole, part, block, upper * half + place)[0]
    return a == record_span(halves, part, 2 * block + upper, place)[0]


@statement(
    "page/offset fits",
    "With block numbers of 32 bits and strides below 2**31, byte offsets fit 64 bits; 32 do not suffice.",
    system="schema",
    needs=Needs(50, {"beyond 32 bits": 1}),
    twin="32 bits",
)
def offset_fits(system: SchemaSystem, choose: Chooser, slip: int = 0) -> Condition:  # noqa: ARG001
    page, _ = choose_page(choose)
    choose.assume(page.stride <= INT32_MAX)
    part = choose.pick("record", ("data", "scales"))
    block, place = choose_place(choose, page)
    start, stop = record_span(page, part, block, place)
    choose.event("beyond 32 bits", stop > INT32_MAX)
    choose.lemma("the record lies in its page", stop <= (block + 1) * page.stride)
    choose.lemma("pages fit", implies(block <= INT32_MAX, (block + 1) * page.stride <= 2**31 * page.stride))
    return (start >= 0) & (stop <= (INT32_MAX if slip else 2**62))
