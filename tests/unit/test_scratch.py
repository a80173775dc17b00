"""Scratch plans: the document's numbers, refused splits, and the totals' one surprise."""

from __future__ import annotations

import numpy as np
import pytest

from kvproof.models.errors import LayoutError
from kvproof.models.scratch import (
    FAMILIES,
    Dims,
    Region,
    ScratchFamily,
    ScratchPlan,
    back_scratch,
    byte_layout,
    chunk_keys,
    dims,
    front_end,
    front_scratch,
    launch_tag,
    scratch_systems,
)


def test_a_rank_of_v4_pro() -> None:
    d = dims("v4-pro", 8)
    assert (d.heads, d.head_tiles, d.groups, d.q_rows, d.o_rows, d.woa_tasks) == (16, 1, 2, 8192, 2048, 64)
    assert (d.keys, d.qkv_rows, d.x_groups) == (1152, 2048, 224)
    assert dims("v4-pro", 8, 8192).keys == 8320


def test_a_rank_of_v41_flash() -> None:
    d = dims("v4.1-flash", 2)
    assert (d.heads, d.head_tiles, d.groups, d.q_rows, d.o_rows, d.woa_tasks) == (32, 2, 4, 16384, 4096, 128)
    assert (d.keys, d.qkv_rows, d.x_groups) == (640, 1792, 160)


def test_regions_of_sixteen_tokens() -> None:
    d = dims("v4-pro", 8)
    front = front_scratch(16, d)
    assert list(front) == ["x8", "x8s", "xrdy", "qkvp", "qx8", "qx8s", "qrdy"]
    assert front["x8"] == (0, 16 * 7168)
    assert front["qkvp"] == (129_280, 2 * 16 * 2048 * 8)
    assert front_end(16, d) == 681_472
    back = back_scratch(16, d, start=front_end(16, d))
    assert back["part"] == (681_472, 16 * 9 * 16 * 512 * 2)
    assert back["ardy"][1] == 64 * 8
    assert ScratchPlan(d, 16).total_bytes == 3_248_128


def test_regions_of_an_odd_token_count_start_aligned() -> None:
    plan = ScratchPlan(dims("v4-pro", 8), 3)
    ends = [offset + nbytes for offset, nbytes in plan.layout.values()]
    assert any(end % 256 for end in ends)
    assert all(offset % 256 == 0 for offset, _ in plan.layout.values())


def test_chunks_of_64_only_for_two_head_tiles_and_few_tasks() -> None:
    four = dims("v4-pro", 4)
    assert (chunk_keys(14, four), chunk_keys(15, four)) == (64, 128)  # 14 * 18 tasks are at most 256
    assert chunk_keys(1, dims("v4-pro", 8)) == 128
    assert chunk_keys(np.array([14, 15]), four).tolist() == [64, 128]


@pytest.mark.parametrize(
    ("family", "tp", "topk", "message"),
    [
        ("v4-pro", 3, None, "tp is 3; v4-pro is served with 1, 2, 4, 8"),
        ("v4.1-flash", 8, None, "tp is 8; v4.1-flash is served with 2, 4"),
        ("v4.1-flash", 2, 1024, "topk is 1024; v4.1-flash attends to 512 compressed keys"),
        ("v4-nano", 1, None, "family is 'v4-nano'; allowed: v4-pro, v4.1-flash"),
        ("v4-pro", 1, -1, "topk must be an integer of at least 0, got -1"),
    ],
)
def test_refused_shares(family: str, tp: int, topk: int | None, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        dims(family, tp, topk)


@pytest.mark.parametrize(
    ("heads", "groups", "tp", "message"),
    [
        (48, 4, 2, "a rank's heads is 24, which the head tile 16 does not divide"),
        (32, 3, 2, "groups is 3, which tp 2 does not divide"),
        (33, 4, 2, "heads is 33, which tp 2 does not divide"),
    ],
)
def test_a_split_that_leaves_a_rest_is_refused(heads: int, groups: int, tp: int, message: str) -> None:
    good = ScratchFamily("other", 256, 64, 32, 4, 16, True, 8, (2,))
    assert Dims(good, 2).heads == 16
    with pytest.raises(LayoutError, match=message):
        Dims(ScratchFamily("other", 256, 64, heads, groups, 16, True, 8, (2,)), tp)


@pytest.mark.parametrize("tokens", [0, 65, True, 1.5])
def test_a_token_count_that_is_not_served_is_refused(tokens: object) -> None:
    assert ScratchPlan(dims("v4-pro", 1), 64).tokens == 64
    with pytest.raises(LayoutError, match="tokens must be an integer from 1 to 64"):
        ScratchPlan(dims("v4-pro", 1), tokens)


def test_a_chunk_that_no_kernel_takes_is_refused() -> None:
    with pytest.raises(LayoutError, match="chunk is 32; allowed: 64, 128"):
        ScratchPlan(dims("v4-pro", 1), 1, 32)


def test_layouts_refuse_a_region_given_twice_and_a_negative_one() -> None:
    assert byte_layout([("a", 1), ("b", 0), ("c", 5)], start=3) == {"a": (256, 1), "b": (512, 0), "c": (512, 5)}
    with pytest.raises(LayoutError, match="region 'a' is given twice"):
        byte_layout([("a", 1), ("a", 2)])
    with pytest.raises(LayoutError, match="region a must not have negative bytes, got -1"):
        byte_layout([("a", -1)])


def test_elements_are_row_major_and_checked() -> None:
    region = Region("part", (("token", 2), ("chunk", 3), ("dim", 4)), 2, "data", "")
    assert (region.nbytes, region.element(1, 2, 3)) == (48, 23)
    with pytest.raises(LayoutError, match=r"part: chunk 3 outside 0\.\.3"):
        region.element(0, 3, 0)
    with pytest.raises(LayoutError, match="part has 3 dimensions, got 2 indices"):
        region.element(0, 1)


@pytest.mark.parametrize("name", scratch_systems())
def test_every_total_is_the_published_formulas(name: str) -> None:
    d = scratch_systems()[name]
    for tokens in range(1, d.family.max_tokens + 1):
        plan = ScratchPlan(d, tokens)
        sizes = {region: nbytes for region, (_, nbytes) in plan.layout.items()}
        tasks = tokens * -(-d.keys // plan.chunk)
        assert sizes["part"] == tasks * d.heads * 512 * 2
        assert sizes["pstat"] == tasks * d.heads * 8
        assert sizes["xos"] * 32 == tokens * d.q_rows * 4
        assert sizes["crdy"] == tokens * d.heads // 8 * 8
        assert plan.total_bytes % 4096 == 0


def test_fewer_tokens_may_need_more_below_the_familys_top_k() -> None:
    """A buffer for the most tokens holds every smaller step at the served top-k, and not at a narrow one."""
    assert FAMILIES["v4-pro"].max_tokens == 64
    served, narrow = dims("v4-pro", 4), dims("v4-pro", 4, 129)
    totals = [ScratchPlan(narrow, tokens).total_bytes for tokens in range(1, 65)]
    assert (max(totals), totals.index(max(totals)) + 1, totals[-1]) == (11_776_000, 51, 10_547_200)
    assert (
        max(ScratchPlan(served, tokens).total_bytes for tokens in range(1, 65))
        == ScratchPlan(served, 64).total_bytes
    )


def test_tags_are_never_zero_and_come_again_late() -> None:
    assert [launch_tag(n) for n in (0, 1, 2**31 - 3, 2**31 - 2, 2**31 - 1)] == [1, 2, 2**31 - 2, 2**31 - 1, 1]
    with pytest.raises(LayoutError, match="launch must not be negative, got -1"):
        launch_tag(-1)
