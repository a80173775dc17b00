"""Strategies: what they draw keeps every contract, is rarely degenerate, and shrinks to the degenerate."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, seed, settings
from hypothesis import strategies as st

from kvproof.kernels.registry import all_kernels
from kvproof.models.contract import bind, broken_clauses
from kvproof.models.deepseek_v4 import CONFIGS, real_configs
from kvproof.models.row_space import ABSENT_RATIO, CSA_RATIO, HCA_RATIO, UnifiedPoolGeometry
from kvproof.properties.strategies.batches import Batch, batches
from kvproof.properties.strategies.cases import Case, all_kernel_properties, poison
from kvproof.properties.strategies.draws import seldom_low
from kvproof.properties.strategies.geometry import (
    geometries,
    geometry_from_json,
    geometry_json,
    real_geometries,
)


def drawn(strategy: st.SearchStrategy[Any], count: int) -> list[Any]:
    """``count`` values, the same at every run; none shrunk."""
    found: list[Any] = []

    @seed(1)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(value: Any) -> None:
        found.append(value)

    collect()
    return found


def smallest(strategy: st.SearchStrategy[Any]) -> Any:
    return find(strategy, lambda _: True, settings=settings(database=None, derandomize=True))


def test_low_values_are_rare_but_what_a_case_shrinks_to() -> None:
    counts = Counter(drawn(seldom_low(0, 4), 300))
    assert 0 < counts[0] < 60
    assert set(counts) == {0, 1, 2, 3, 4}
    assert smallest(seldom_low(0, 4)) == 0


@pytest.fixture(scope="module")
def spaces() -> list[UnifiedPoolGeometry]:
    return drawn(geometries(), 300)


def test_geometries_show_every_mix_of_classes(spaces: list[UnifiedPoolGeometry]) -> None:
    mixes = {frozenset(g.classes) for g in spaces}
    assert len(mixes) == 7
    with_absent = {frozenset(g.classes) for g in spaces if ABSENT_RATIO in g.ratios}
    assert len(with_absent) == 7
    assert any(g.ratios in ([0], [CSA_RATIO], [HCA_RATIO]) for g in spaces)


def test_geometries_show_rings_on_both_sides_of_a_stride(spaces: list[UnifiedPoolGeometry]) -> None:
    sides = Counter(
        np.sign(g.ring_slots - c.ring_stride).item()
        for g in spaces
        for c in g.classes.values()
        if c.ratio in (CSA_RATIO, HCA_RATIO)
    )
    assert min(sides[-1], sides[0], sides[1]) >= 10


def test_geometries_show_gaps_rests_arenas_and_foreign_numbering(spaces: list[UnifiedPoolGeometry]) -> None:
    gaps = sum((g.held_slots - g.num_slots) * g.slot_rows - g.num_blocks * g.envelope_rows > 0 for g in spaces)
    assert gaps >= 50
    assert sum(g.plane_rows % g.slot_rows > 0 for g in spaces) >= 50
    assert sum(g.arena_rows > 0 for g in spaces) >= 100
    assert sum(g.slot_origin > 0 for g in spaces) >= 20
    assert sum(g.num_slots == 0 for g in spaces) in range(1, 90)
    assert sum(g.slot_rows % 2 == 1 for g in spaces) >= 10


def test_geometries_stay_small(spaces: list[UnifiedPoolGeometry]) -> None:
    assert max(g.plane_rows for g in spaces) < 20_000


def test_the_smallest_geometry_is_one_dense_layer() -> None:
    g = smallest(geometries())
    assert (g.ratios, g.ring_slots, g.block_size) == ([0], 1, 1)
    assert (g.num_blocks, g.num_slots, g.arena_rows, g.slot_origin) == (0, 0, 0, 0)


def test_geometries_go_through_json(spaces: list[UnifiedPoolGeometry]) -> None:
    for g in spaces[:50]:
        again = geometry_from_json(geometry_json(g))
        assert geometry_json(again) == geometry_json(g)
        assert [again.window_params(r) for r in again.classes] == [g.window_params(r) for r in g.classes]


@pytest.mark.parametrize("config", real_configs(), ids=lambda c: c.name)
def test_real_planes_have_the_layout_of_their_configuration(config: Any) -> None:
    base = config.geometry(0, 0)
    for g in drawn(real_geometries(config, min_slots=1), 10):
        assert (g.slot_rows, g.envelope_rows, g.arena_rows) == (
            base.slot_rows,
            base.envelope_rows,
            base.arena_rows,
        )
        assert g.num_slots >= 1


GEOMETRY = CONFIGS["v4-flash-mtp1"].geometry(2, 4)


@pytest.fixture(scope="module")
def some_batches() -> list[Batch]:
    return drawn(batches(GEOMETRY), 300)


def test_batches_are_well_formed(some_batches: list[Batch]) -> None:
    for batch in some_batches:
        bounds = batch.cu_seqlens[: len(batch.slots) + 1]
        assert bounds == sorted(bounds)
        assert bounds[0] >= 0
        assert bounds[-1] <= batch.tokens <= len(batch.positions)


def test_batches_are_rarely_degenerate(some_batches: list[Batch]) -> None:
    top = GEOMETRY.slot_positions - 1
    identity = sum(b.slots == [top - i for i in range(len(b.slots))] and len(b.slots) > 1 for b in some_batches)
    assert identity < 30
    assert sum(len(b.slots) > 1 for b in some_batches) > 150
    assert sum("ragged" in b.events for b in some_batches) > 100
    live = [s for b in some_batches for s in b.slots if GEOMETRY.slot_origin <= s < GEOMETRY.slot_positions]
    assert len(set(live)) == GEOMETRY.num_slots


def test_the_smallest_batch_is_empty() -> None:
    batch = smallest(batches(GEOMETRY))
    assert (batch.slots, batch.tokens, batch.cu_seqlens) == ([], 0, [0])


def checked(name: str, subject: Any, count: int) -> Counter[str]:
    """Events of ``count`` cases, each of which keeps its contract and stores its poison by seed."""
    contract = all_kernels()[name].contract
    events: Counter[str] = Counter()
    cases: list[Case] = drawn(all_kernel_properties()[name].cases(subject), count)
    for case in cases:
        assert not list(broken_clauses(contract, bind(contract, case.values)))
        events.update(case.events)
        for tensor, number in case.poison.items():
            value = case.values[tensor]
            assert poison(number, value.dtype, value.storage.size).tobytes() == value.storage.tobytes()
    return events


@pytest.mark.parametrize("name", all_kernel_properties())
def test_cases_keep_the_contract_and_show_what_is_needed(name: str) -> None:
    needs = all_kernel_properties()[name].needs
    # Hypothesis draws in clusters, so a rare event is met late in some runs.
    events = checked(name, None, 2 * needs.cases)
    assert not {e: (events[e], n) for e, n in needs.events.items() if events[e] < n}


@pytest.mark.parametrize("name", all_kernel_properties())
def test_cases_of_a_real_configuration_keep_the_contract(name: str) -> None:
    assert checked(name, CONFIGS["v4-pro-dspark"], 20)


def test_poison_depends_on_its_seed_alone() -> None:
    assert poison(3, "bf16", 100).tobytes() == poison(3, "uint8", 200).tobytes()
    assert poison(3, "fp32", 10).tobytes() == poison(3, "fp32", 20)[:10].tobytes()
    assert poison(3, "uint8", 100).tobytes() != poison(4, "uint8", 100).tobytes()
    assert poison(0, "uint8", 0).size == 0
