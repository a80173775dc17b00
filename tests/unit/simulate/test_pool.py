"""The host's side of the pool: allocation from two ends, references, the boundary, prefix keys, copy plans."""

from __future__ import annotations

import numpy as np
import pytest

from kvproof.models.deepseek_v4 import CONFIGS
from kvproof.models.errors import LayoutError
from kvproof.models.pool import (
    ROOT,
    ElasticPool,
    PrefixCache,
    apart,
    blocks_of,
    blocks_to_blocks,
    chain,
    image_to_slot,
    most_blocks,
    slot_to_image,
    slot_to_slot,
)
from kvproof.models.row_space import UnifiedPoolGeometry

SPACE = CONFIGS["v4-flash"].geometry(40, 4)


def test_blocks_from_the_low_end_and_slots_from_the_high_end() -> None:
    pool = ElasticPool(SPACE, 4)
    assert [pool.take_block() for _ in range(3)] == [0, 1, 2]
    assert [pool.slot_of(group) for group in (pool.take_group(), pool.take_group()) if group is not None] == [
        SPACE.slot_positions - 1,
        SPACE.slot_positions - 2,
    ]
    assert pool.block_limit == most_blocks(SPACE, 4)


def test_the_last_block_ends_where_the_lowest_slot_starts_or_before() -> None:
    for slots in range(int(SPACE.held_slots) + 1):
        blocks = most_blocks(SPACE, slots)
        lowest = (SPACE.held_slots - slots) * SPACE.slot_rows
        assert blocks * SPACE.envelope_rows <= lowest < (blocks + 1) * SPACE.envelope_rows
        assert apart(SPACE, blocks, slots)
        assert not apart(SPACE, blocks + 1, slots)


def test_the_allocator_grants_what_the_row_space_accepts_and_no_more() -> None:
    slots = 3
    blocks = most_blocks(SPACE, slots)
    SPACE.with_capacity(blocks, slots, SPACE.plane_rows)
    with pytest.raises(LayoutError):
        SPACE.with_capacity(blocks + 1, slots, SPACE.plane_rows)


def test_a_block_is_free_after_its_last_reference() -> None:
    pool = ElasticPool(SPACE, 1)
    block = pool.take_block()
    assert block is not None
    pool.retain(block)
    before = pool.free_blocks
    assert not pool.release(block)
    assert pool.release(block)
    assert pool.free_blocks == before + 1
    with pytest.raises(LayoutError, match=f"block {block} is released, but it is free already"):
        pool.release(block)
    with pytest.raises(LayoutError, match=f"block {block} is free; allowed: a block in use"):
        pool.retain(block)


def test_nothing_is_given_that_is_not_there() -> None:
    pool = ElasticPool(SPACE, 1)
    assert pool.take_group() == 0
    assert pool.take_group() is None
    with pytest.raises(LayoutError, match="id 0 is free already"):
        [pool.release_group(0) for _ in range(2)]
    with pytest.raises(LayoutError, match="group must be an integer from 0 to 0, got 1"):
        pool.release_group(1)
    while pool.take_block() is not None:
        pass
    assert pool.free_blocks == 0


def test_the_boundary_moves_over_free_ids_only() -> None:
    pool = ElasticPool(SPACE, 1)
    blocks = pool.block_limit
    assert pool.move_boundary(3)
    assert (pool.slot_limit, pool.block_limit) == (3, most_blocks(SPACE, 3))
    groups = [pool.take_group() for _ in range(3)]
    assert not pool.move_boundary(2)
    assert groups[-1] == 2
    pool.release_group(2)
    assert pool.move_boundary(2)
    assert pool.move_boundary(2)
    while pool.take_block() is not None:
        pass
    assert not pool.move_boundary(3)
    assert pool.release(pool.block_limit - 1)
    assert pool.block_limit < blocks


def test_a_layout_without_compressed_rows_has_no_blocks() -> None:
    with pytest.raises(LayoutError, match="a layout without compressed rows has no blocks"):
        ElasticPool(UnifiedPoolGeometry([0], 0, 2, 8, 8), 1)


@pytest.mark.parametrize(("tokens", "blocks"), [(0, 0), (1, 1), (255, 1), (256, 1), (257, 2)])
def test_blocks_of_a_request(tokens: int, blocks: int) -> None:
    assert blocks_of(tokens, 256) == blocks


def test_a_key_tells_the_whole_prefix() -> None:
    first, other = chain(ROOT, b"one"), chain(ROOT, b"two")
    assert first != other
    assert chain(first, b"more") != chain(other, b"more")
    assert chain(first, b"more") == chain(chain(ROOT, b"one"), b"more")


def test_a_hit_ends_at_a_checkpoint() -> None:
    cache = PrefixCache()
    keys = [chain(ROOT, bytes([n])) for n in range(4)]
    for block, key in enumerate(keys[:3]):
        assert cache.insert(key, block)
    assert not cache.insert(keys[0], 9)
    assert cache.hit(keys) == []
    assert cache.attach(keys[1], 7)
    assert not cache.attach(keys[1], 8)
    assert not cache.attach(keys[3], 8)
    assert [entry.block for entry in cache.hit(keys)] == [0, 1]
    assert cache.hit(keys[2:]) == []
    cache.remove(keys[0])
    assert cache.hit(keys) == []


def test_copy_plans_move_whole_slots_and_blocks() -> None:
    slot = SPACE.slot_positions - 2
    rows = np.arange(SPACE.plane_rows)
    (out,) = slot_to_image(SPACE, slot)
    (back,) = image_to_slot(SPACE, slot)
    assert (out.rows, out.target) == (SPACE.slot_rows, 0)
    assert (back.source, back.target, back.rows) == (out.target, out.source, out.rows)
    assert rows[out.source] == SPACE.slot_span(slot)[0]
    (across,) = slot_to_slot(SPACE, slot, slot + 1)
    assert across.target - across.source == SPACE.slot_rows
    first, second = blocks_to_blocks(SPACE, [0, 3], [5, 1])
    assert (first.source, first.target) == (0, 5 * SPACE.envelope_rows)
    assert (second.source, second.target, second.rows) == (
        *(n * SPACE.envelope_rows for n in (3, 1)),
        SPACE.envelope_rows,
    )
