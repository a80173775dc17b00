"""Block tables: a block of its own for every column of every sequence, in no order, stale ids among them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from kvproof.kernels.launch import cdiv
from kvproof.kernels.shapes import GROUP_PROGRAMS, group_splits, shaped_for
from kvproof.models.contract import TensorValue
from kvproof.models.row_space import HCA_RATIO, UnifiedPoolGeometry
from kvproof.properties.strategies.batches import STALE
from kvproof.properties.strategies.cases import poison
from kvproof.properties.strategies.draws import mostly, rarely, seldom_low, shapes_for
from kvproof.properties.strategies.tokens import taken

MANY_COLUMNS = 32
"""A longer row's blocks are not drawn one by one."""


FEW_GROUPS = 12

ONE_PROGRAM = GROUP_PROGRAMS
"""Tokens from which one program writes all of a token's groups."""


@dataclass(frozen=True)
class Groups:
    """How many HCA groups a case is about.

    Attributes:
        most: groups that a slice has room for: a stale count is no reason for a buffer of its size.
        columns: columns of the block table.
        behind: positions before those that are drawn.
        shaped_for: as of a case.
    """

    most: int
    columns: int
    behind: int
    shaped_for: int

    def events(self, tokens: int, per_block: int, block: int, written: int) -> set[str]:
        """What ``written`` groups of one token show, where a program takes ``block`` of them at a time."""
        with shaped_for(self.shaped_for):
            splits = group_splits(tokens, self.columns * per_block, block)
        found = {
            "several programs a token": splits > 1 and written > block,
            "several passes a program": written > splits * block,
        }
        return {name for name, happened in found.items() if happened}


@st.composite
def group_counts(draw: st.DrawFn, geometry: UnifiedPoolGeometry, block: int) -> Groups:
    """A few groups; or, where there are HCA layers, more than the ``block`` that a program takes at a time.

    All of a token's groups are then written by two programs or more, or by one.
    """
    per_block = max(geometry.block_size // HCA_RATIO, 1)
    if HCA_RATIO not in geometry.classes or not draw(st.booleans()):
        return Groups(FEW_GROUPS, draw(seldom_low(1, 3)), 0, 0)
    most = draw(st.sampled_from([block + 1, 2 * block + 3]))
    return Groups(most, cdiv(most, per_block), (most + 1) * HCA_RATIO, draw(shapes_for(ONE_PROGRAM)))


@st.composite
def block_tables(
    draw: st.DrawFn, geometry: UnifiedPoolGeometry, sequences: int, columns: int
) -> tuple[TensorValue, frozenset[str]]:
    """A table of ``sequences`` rows and its events. Ids past the plane's blocks occur, as of a stale buffer.

    A row of many columns has blocks more than once: as if sequences shared them, which readers do not mind.

    Rows may be further apart than their columns: a table is often a slice of a larger one.
    """
    blocks = max(geometry.num_blocks, sequences * columns)
    long = columns > MANY_COLUMNS
    if long:
        drawn = poison(draw(st.integers(0, 2**16)), "int32", sequences * columns).astype(np.int64)
        ids = (drawn % max(geometry.num_blocks, 1)).tolist()
    else:
        ids = taken(draw, range(blocks), sequences * columns)
    events: set[str] = set()
    for at in range(min(len(ids), MANY_COLUMNS)):
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
