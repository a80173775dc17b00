"""Block tables: a block of its own for every column of every sequence, in no order, stale ids among them."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from kvproof.models.contract import TensorValue
from kvproof.models.row_space import UnifiedPoolGeometry
from kvproof.properties.strategies.batches import STALE
from kvproof.properties.strategies.cases import poison
from kvproof.properties.strategies.draws import mostly, rarely, seldom_low
from kvproof.properties.strategies.tokens import taken


@st.composite
def block_tables(
    draw: st.DrawFn, geometry: UnifiedPoolGeometry, sequences: int, columns: int
) -> tuple[TensorValue, frozenset[str]]:
    """A table of ``sequences`` rows and its events. Ids past the plane's blocks occur, as of a stale buffer.

    Rows may be further apart than their columns: a table is often a slice of a larger one.
    """
    blocks = max(geometry.num_blocks, sequences * columns)
    ids = taken(draw, range(blocks), sequences * columns)
    events: set[str] = set()
    for at in range(len(ids)):
        if draw(rarely()) and draw(rarely()):
            ids[at] = draw(st.one_of(st.just(-1), STALE))
            events |= {"no block"} if ids[at] < 0 else {"stale block"}
    rows = [ids[s * columns : (s + 1) * columns] for s in range(sequences)]
    if any(b < a for row in rows for a, b in itertools.pairwise(row)):
        events.add("descending blocks")
    stride = columns + (draw(seldom_low(0, 3)) if draw(mostly()) else 0)
    events |= {"strided table"} if stride > columns and sequences > 1 else set()
    storage = poison(0, "int32", sequences * stride)
    value = TensorValue("int32", storage, (sequences, columns), (stride, 1))
    value.array[...] = np.array(rows, np.int32).reshape(sequences, columns)
    return value, frozenset(events)
