"""What formulas take for an index: integers and batches of them at full width, and nothing that looks alike."""

import numpy as np
import pytest

from kvproof.models.deepseek_v4 import CONFIGS
from kvproof.models.errors import LayoutError
from kvproof.models.row_space import (
    ClassLayout,
    UnifiedPoolGeometry,
    WindowParams,
    entry_rows_for,
    ring_offset_for,
)

GEOMETRY = CONFIGS["v4-pro"].geometry(1000, 60000)
SLOT = 59000


@pytest.mark.parametrize("dtype", [np.int32, np.uint16, np.uint32, np.int64])
def test_narrow_integers_are_widened_before_a_product_could_wrap(dtype):
    row = GEOMETRY.window_index(0, SLOT, 0)
    assert row > 2**31
    assert GEOMETRY.window_index(0, dtype(SLOT), 0) == row
    assert GEOMETRY.window_index(0, np.array([SLOT], dtype), 0).tolist() == [row]
    assert GEOMETRY.slot_span(np.array([SLOT], dtype))[0].tolist() == [GEOMETRY.slot_span(SLOT)[0]]
    assert GEOMETRY.compress_index(0, dtype(SLOT), 0) == SLOT * GEOMETRY.envelope_rows


@pytest.mark.parametrize("value", [True, 1.0, 1.5, np.float64(1), np.bool_(1), None, "1", np.array([1.0])])
@pytest.mark.parametrize(
    "formula",
    [
        lambda v: ring_offset_for(2, 4, v),
        lambda v: ring_offset_for(v, 4, 1),
        lambda v: entry_rows_for(3, 4, v),
        lambda v: WindowParams(0, 10, 5, 2, 4).index(v, 1),
        lambda v: WindowParams(0, 10, 5, 2, 4).index(1, v),
        lambda v: GEOMETRY.window_index(0, v, 0),
        lambda v: GEOMETRY.compress_index(0, v, 0),
        GEOMETRY.physical_slot,
        GEOMETRY.block_span,
        GEOMETRY.slot_span,
        lambda v: GEOMETRY.absolute_row(0, v),
        lambda v: GEOMETRY.classes[4].ring_row(0, v),
    ],
)
def test_what_is_no_integer_is_refused_by_name(formula, value):
    with pytest.raises(LayoutError, match=r"must be (an integer|integers)"):
        formula(value)


@pytest.mark.parametrize("ratios", [None, 4, "004"])
def test_ratios_that_are_no_list_are_refused(ratios):
    with pytest.raises(LayoutError, match="ratios must be a list"):
        UnifiedPoolGeometry(ratios, 1, 1, 8, 256)


def test_a_class_refuses_layers_and_positions_that_it_does_not_have():
    cls = GEOMETRY.classes[4]
    last = (cls.num_layers - 1, cls.ring_slots - 1)
    assert cls.ring_row(*last) == cls.entry_rows - 1
    with pytest.raises(LayoutError, match=rf"layer index {cls.num_layers} outside"):
        cls.ring_row(cls.num_layers, 0)
    with pytest.raises(LayoutError, match=rf"ring position {cls.ring_slots} outside"):
        cls.ring_row(0, cls.ring_slots)
    with pytest.raises(LayoutError, match="block_rows must be an integer of at least 0"):
        ClassLayout(4, (0,), 1.5, 4, 5, 0, 0)
