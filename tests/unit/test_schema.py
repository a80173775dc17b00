"""The cache schema's numbers, the public formula's counterexamples, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kvproof.models.deepseek_v4 import CONFIGS, with_kv
from kvproof.models.errors import LayoutError
from kvproof.models.schema import (
    BLOCK_SIZE_ORIGINAL_TOKENS,
    ENTRY_FORMATS,
    INDEXER_FORMATS,
    NO_HEADROOM,
    AttentionType,
    DSV4Config,
    Headroom,
    LayerSpec,
    PageLayout,
    SchemaSystem,
    block_budget,
    blocks_held,
    build_schema,
    compute_block_budget,
    convert_place,
    document_tail,
    floor_block_budget,
    layer_schedule,
    layer_schema,
    page_layout,
    schema_bytes,
    schema_config,
    smallest_tail,
)

CSA, HCA, SWA = (LayerSpec(i, AttentionType(kind)) for i, kind in enumerate(("CSA", "HCA", "SWA")))


def test_a_block_is_the_least_that_both_ratios_divide() -> None:
    assert BLOCK_SIZE_ORIGINAL_TOKENS == DSV4Config().block_tokens == 128
    assert DSV4Config(csa_compression_ratio=6, hca_compression_ratio=4).block_tokens == 12


@pytest.mark.parametrize(
    ("spec", "entries", "indexer", "tail"), [(CSA, 32, 32, 7), (HCA, 1, 0, 127), (SWA, 0, 0, 0)]
)
def test_entries_and_tails_without_draft_tokens(spec: LayerSpec, entries: int, indexer: int, tail: int) -> None:
    schema = build_schema(DSV4Config(), spec)
    assert (schema.layer_idx, schema.attn_type) == (spec.layer_idx, spec.attn)
    assert (schema.entries_per_block, schema.indexer_entries_per_block) == (entries, indexer)
    assert (schema.indexer_head_dim, schema.entry_head_dim, schema.rope_dim) == (128 if indexer else 0, 512, 64)
    assert (schema.swa_window_size, schema.window_slots) == (128, 128)
    assert schema.tail_buffer_size == tail


@pytest.mark.parametrize(("name", "csa", "hca"), [("v4-flash-mtp1", 8, 128), ("v4-pro-dspark", 14, 134)])
def test_draft_tokens_lengthen_window_and_tails(name: str, csa: int, hca: int) -> None:
    kinds = SchemaSystem(CONFIGS[name]).kinds
    assert (kinds["CSA"].tail_buffer_size, kinds["HCA"].tail_buffer_size) == (csa, hca)
    assert kinds["CSA"].window_slots == 128 + CONFIGS[name].draft_tokens


def test_kinds_of_every_layer_of_a_model() -> None:
    model = CONFIGS["v4-pro-dspark"]
    kinds = [spec.attn for spec in layer_schedule(model)]
    assert len(kinds) == 64
    assert kinds[:3] == [AttentionType.HCA, AttentionType.HCA, AttentionType.CSA]
    assert kinds[-3:] == [AttentionType.SWA] * 3
    assert (kinds.count(AttentionType.CSA), kinds.count(AttentionType.HCA)) == (30, 31)


def test_a_block_that_a_ratio_does_not_divide_is_refused() -> None:
    assert layer_schema(AttentionType.HCA, 128, block_tokens=256).entries_per_block == 2
    with pytest.raises(LayoutError, match="block_tokens is 192, not a multiple of ratio 128"):
        layer_schema(AttentionType.HCA, 128, block_tokens=192)
    with pytest.raises(LayoutError, match="window-only and keeps no compressed entries"):
        build_schema(DSV4Config(), SWA).locate(0)


@pytest.mark.parametrize(
    ("entry", "nbytes", "block"),
    [("bf16", 1024, 32768), ("fp8", 580, 18560), ("packed", 584, 18688), ("planes", 640, 20480)],
)
def test_bytes_of_each_dtype_choice(entry: str, nbytes: int, block: int) -> None:
    assert ENTRY_FORMATS[entry].entry_bytes == nbytes
    sizes = schema_bytes(build_schema(DSV4Config(), CSA), ENTRY_FORMATS[entry], INDEXER_FORMATS["fp8"])
    assert (sizes.block, sizes.indexer_block, sizes.window) == (block, 32 * 132, 128 * nbytes)
    # kv and score of 2 * 512 elements in fp32 a position; the indexer's of 2 * 128.
    assert (sizes.tail, sizes.indexer_tail) == (7 * 8 * 1024, 7 * 8 * 256)


def test_a_blocks_bytes_are_the_row_spaces() -> None:
    for name, kv, expected in (
        ("v4-flash", "fp8", 885_760),
        ("v4-flash", "bf16", 1_417_216),
        ("v4-pro", "fp8", 1_268_480),
    ):
        system = SchemaSystem(with_kv(CONFIGS[name], kv))
        config = schema_config(system.model)
        total = 0
        for kind in system.compressed:
            ratio = system.row_space_ratio(kind)
            schema = layer_schema(AttentionType(kind), ratio, config=config, block_tokens=256)
            row = ENTRY_FORMATS["planes" if kv == "fp8" else "bf16"]
            total += system.layers_of(kind) * schema_bytes(schema, row, INDEXER_FORMATS["fp8"]).block
        assert total == expected


# ---- budgets ----


def lost_request(ratio: int, block: int) -> tuple[int, int]:
    """The least (requests, context) for which the public formula has fewer blocks than the requests hold."""
    return next(
        (requests, context)
        for size in range(2 * block + 2)
        for requests in range(1, size + 1)
        for context in [size - requests]
        if floor_block_budget(block, context, requests) < requests * blocks_held(context, ratio, block)
    )


def test_the_public_formula_leaves_one_csa_request_of_four_tokens_without_a_block() -> None:
    assert lost_request(4, 128) == (1, 4)
    assert floor_block_budget(128, 4, 1) == 0
    assert block_budget(4, 128, 4, 1) == 2  # its block, and a tenth of it rounded up
    assert block_budget(4, 128, 3, 1) == 0  # three tokens make no entry


def test_with_blocks_of_256_tokens_it_leaves_an_hca_request_without_one_too() -> None:
    assert lost_request(128, 256) == (1, 128)
    assert all(
        floor_block_budget(128, context, n) >= n * blocks_held(context, 128, 128)
        for context in range(600)
        for n in range(1, 4)
    )


def test_its_headroom_is_no_block_for_one_request_of_one_block() -> None:
    assert floor_block_budget(128, 128, 1) == 1 == blocks_held(128, 4, 128)
    assert block_budget(4, 128, 128, 1) == 2
    # The last context for which the headroom does not make up for the lost block, and the first for which it does.
    assert floor_block_budget(128, 1279, 1) == 9 < blocks_held(1279, 4, 128) == 10
    assert floor_block_budget(128, 1284, 1) == 11 == blocks_held(1284, 4, 128)


def test_the_formula_in_integers_is_the_public_one_in_floats() -> None:
    counts = [*range(3000), *np.random.default_rng(0).integers(0, 2**40, 3000).tolist()]
    for blocks in counts:
        assert floor_block_budget(128, 128 * blocks, 1) == int(1 * (128 * blocks // 128) * 1.10)


def test_budgets_of_a_model_under_the_public_name() -> None:
    model = CONFIGS["v4-flash"]
    arguments = (schema_config(model), layer_schedule(model), 1_000_000, 8)
    assert compute_block_budget(*arguments) == {"csa": 68755, "hca": 68746}
    assert compute_block_budget(*arguments, NO_HEADROOM) == {"csa": 62504, "hca": 62496}
    assert compute_block_budget(schema_config(model), [SWA], 1000, 1) == {}


@pytest.mark.parametrize("headroom", [Headroom(1, 10), Headroom(1, 3), Headroom(3, 2), NO_HEADROOM])
def test_the_budget_is_the_least_that_keeps_what_it_promises(headroom: Headroom) -> None:
    for requests in range(6):
        for context in range(0, 700, 7):
            held = requests * blocks_held(context, 4, 128)
            least = next(n for n in range(4000) if n >= held and (n - held) * headroom.of >= held * headroom.extra)
            assert block_budget(4, 128, context, requests, headroom) == least


def test_refused_budgets_name_the_argument() -> None:
    with pytest.raises(LayoutError, match="max_context_tokens must not be negative, got -1"):
        block_budget(4, 128, -1, 1)
    with pytest.raises(LayoutError, match="block_tokens is 130, not a multiple of ratio 4"):
        block_budget(4, 130, 1, 1)
    with pytest.raises(LayoutError, match="headroom of must be an integer of at least 1, got 0"):
        Headroom(1, 0)


# ---- tails ----


def loses(size: int, ratio: int, overlap: bool, drafts: int) -> bool:
    """Whether a ring of ``size`` places ever misses a position, by running every acceptance of every step."""
    pooled = ratio * (2 if overlap else 1)
    steps = {(0, ())}  # (next position, what the ring holds by place)
    for _ in range(3 * pooled + 4):
        following = set()
        for start, ring in steps:
            held = dict(ring)
            new = range(start, start + drafts + 1)
            for last in new:
                if (last + 1) % ratio == 0:
                    wanted = range(max(last - pooled + 1, 0), start)
                    if any(held.get(p % size if size else 0) != p for p in wanted):
                        return True
            if size:
                held.update({p % size: p for p in new})
            following |= {(start + kept, tuple(sorted(held.items()))) for kept in range(1, drafts + 2)}
        steps = set(sorted(following)[:64])
    return False


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("ratio", [1, 2, 3, 4])
@pytest.mark.parametrize("drafts", [0, 1, 2])
def test_the_smallest_tail_by_running_requests(ratio: int, overlap: bool, drafts: int) -> None:
    size = smallest_tail(ratio, overlap, drafts)
    assert not loses(size, ratio, overlap, drafts)
    if size:
        assert loses(size - 1, ratio, overlap, drafts)


def test_the_public_tail_is_enough_for_hca_alone() -> None:
    assert not loses(document_tail(4), 4, overlap=False, drafts=0)
    assert loses(document_tail(4), 4, overlap=False, drafts=1)
    assert loses(document_tail(4), 4, overlap=True, drafts=0)
    assert (document_tail(128), smallest_tail(128, overlap=False)) == (127, 127)
    assert (document_tail(4), smallest_tail(4, overlap=True)) == (3, 7)


# ---- pages ----


def test_records_of_both_formats() -> None:
    then, inter = (page_layout(INDEXER_FORMATS["fp8"], 2, interleaved, align=512) for interleaved in (False, True))
    assert (then.stride, then.payload) == (512, 264)
    assert [then.data_offset(1, p) for p in (0, 1)] == [512, 640]
    assert [then.scale_offset(1, p) for p in (0, 1)] == [768, 772]
    assert [inter.data_offset(0, p) for p in (0, 1)] == [0, 132]
    assert [inter.scale_offset(0, p) for p in (0, 1)] == [128, 260]


def test_offsets_of_arrays_and_of_what_is_refused() -> None:
    page = page_layout(ENTRY_FORMATS["packed"], 64)
    block, place = page.locate(np.arange(130))
    assert page.data_offset(block, place)[[0, 63, 64, 129]].tolist() == [0, 63 * 576, 64 * 584, 2 * 64 * 584 + 576]
    with pytest.raises(LayoutError, match=r"slot -1 must not be negative"):
        page.locate(np.array([3, -1]))
    with pytest.raises(LayoutError, match=r"place 64 outside 0\.\.64"):
        page.data_offset(0, 64)
    with pytest.raises(LayoutError, match="stride is 583 bytes, less than the 584 bytes"):
        PageLayout(1, 576, 8, interleaved=False, stride=583)


def test_the_two_formats_agree_for_a_single_entry_only() -> None:
    for entries in (1, 2):
        then, inter = (PageLayout(entries, 576, 8, i, 584 * entries) for i in (False, True))
        same = all(then.data_offset(0, p) == inter.data_offset(0, p) for p in range(entries))
        assert same == (entries == 1)


@pytest.mark.parametrize(("small", "large"), [(32, 64), (1, 2)])
def test_conversion_between_blocks_of_128_and_256(small: int, large: int) -> None:
    for entry in range(3 * large):
        there = convert_place(entry // small, entry % small, small, large)
        assert there == (entry // large, entry % large)
        assert convert_place(*there, large, small) == (entry // small, entry % small)
    assert math.gcd(small, large) == small
