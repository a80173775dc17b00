"""Every statement about the row space on every combination of values of small layouts."""

from __future__ import annotations

import itertools

import pytest

from kvproof.harness.check.choosers import enumerate_cases
from kvproof.models.errors import LayoutError
from kvproof.models.row_space import ABSENT_RATIO, CSA_RATIO, DENSE_RATIO, HCA_RATIO, UnifiedPoolGeometry
from kvproof.properties.statement import all_statements

LAYERS = (
    (DENSE_RATIO,),
    (DENSE_RATIO, DENSE_RATIO),
    (HCA_RATIO,),
    (CSA_RATIO, CSA_RATIO),
    (HCA_RATIO, HCA_RATIO, DENSE_RATIO),
    (CSA_RATIO, ABSENT_RATIO, DENSE_RATIO),
)


def small_layouts() -> list[UnifiedPoolGeometry]:
    """Layouts of up to three layers, with rings around the stride, state, gaps and foreign numberings."""
    found: list[UnifiedPoolGeometry] = []
    for ratios, ring, arena, blocks, slots, more in itertools.product(
        LAYERS, (1, 2, 3), (0, 2), (1, 2), (1, 2), (0, 1)
    ):
        block_size = {HCA_RATIO: HCA_RATIO, CSA_RATIO: 2 * CSA_RATIO}.get(max(ratios), 1)
        tight = UnifiedPoolGeometry(ratios, 0, 1, ring, block_size, arena_rows=arena)
        held = slots + more + -(-blocks * tight.envelope_rows // tight.slot_rows)
        try:
            found.append(
                UnifiedPoolGeometry(
                    ratios,
                    blocks,
                    slots,
                    ring,
                    block_size,
                    plane_rows=held * tight.slot_rows + more,
                    arena_rows=arena,
                    slot_positions=held + more,
                )
            )
        except LayoutError:
            continue  # windows that a view would not reach
    return found


def test_the_layouts_are_many_and_of_every_class() -> None:
    layouts = small_layouts()
    assert len(layouts) == 288
    assert {ratio for layout in layouts for ratio in layout.class_rows} == {DENSE_RATIO, HCA_RATIO, CSA_RATIO}


@pytest.mark.parametrize("name", sorted(all_statements("row-space")))
def test_a_statement_holds_in_every_case(name: str) -> None:
    statement = all_statements("row-space")[name]
    cases = 0
    for layout in small_layouts():
        found = enumerate_cases(statement.body, layout)
        assert found.failure is None, (layout.ratios, vars(layout), found.failure)
        assert found.complete
        cases += found.cases
    assert cases >= len(LAYERS)
