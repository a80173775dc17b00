"""Stamps: what is written to a row instead of a value, so that a reader can tell whose row it has.

A row is four int32: request + 1, layer, kind and place, generation. No two writes of a run have the same stamp,
and what lies in fresh memory is no stamp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

WORDS = 4
ROW_BYTES = 4 * WORDS

StampKind = Literal["window", "entry"]
_KINDS: dict[StampKind, int] = {"window": 1 << 28, "entry": 2 << 28}
_PLACE = (1 << 28) - 1


@dataclass(frozen=True, order=True)
class Stamp:
    """Whose row it is.

    Attributes:
        request: number of the request.
        layer: layer that wrote it.
        kind: a position's row in a window, or a compressed entry.
        place: the position, or the entry.
        generation: forward that wrote it, from 1; 0 for what was restored.
    """

    request: int
    layer: int
    kind: StampKind
    place: int
    generation: int

    def __str__(self) -> str:
        what = "position" if self.kind == "window" else "entry"
        return f"{what} {self.place} of request {self.request} (layer {self.layer}, forward {self.generation})"

    @property
    def words(self) -> list[int]:
        """The row."""
        return [self.request + 1, self.layer, _KINDS[self.kind] | self.place, self.generation]


def rows(stamps: list[Stamp]) -> npt.NDArray[np.uint8]:
    """Rows [n, 16] of bytes."""
    words = np.array([stamp.words for stamp in stamps], np.int32).reshape(len(stamps), WORDS)
    return words.view(np.uint8).reshape(len(stamps), ROW_BYTES)


def read(row: npt.NDArray[Any]) -> Stamp | None:
    """The stamp in a row of bytes; None if there is none."""
    request, layer, coded, generation = (int(word) for word in np.ascontiguousarray(row).view(np.int32))
    for kind, bit in _KINDS.items():
        if coded >> 28 == bit >> 28 and request > 0 and layer >= 0 and generation >= 0:
            return Stamp(request - 1, layer, kind, coded & _PLACE, generation)
    return None
