"""The pool and the states of one run, and what a reader of them must find."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from kvproof.harness.run.forward.launches import Checks, Launches
from kvproof.kernels.state_update.spec import pooled
from kvproof.models.contract import TensorValue
from kvproof.models.row_space import CSA_RATIO, HCA_RATIO
from kvproof.properties.joint.schedule import Schedule
from kvproof.properties.joint.stamps import ROW_BYTES, WORDS, Stamp, read, rows

OVERLAP = {CSA_RATIO: True, HCA_RATIO: False}


@dataclass
class World:
    """Everything that lives from forward to forward.

    Attributes:
        plane: the pool's rows, as bytes.
        states: by class the kv ring of each slot, fp32 [slots, ring, 4].
        done: positions of each request so far.
        window: generation of each (request, position), as last written.
        entries: generation of each (ratio, request, entry), as last written.
        reads: what each (request, position, ratio) read, once for each time it was a token; see ``reads.py``.
    """

    schedule: Schedule
    launches: Launches
    checks: Checks
    plane: npt.NDArray[np.uint8] = field(init=False)
    states: dict[int, npt.NDArray[np.float32]] = field(init=False)
    done: list[int] = field(init=False)
    window: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    entries: dict[tuple[int, int, int], int] = field(default_factory=dict[tuple[int, int, int], int])
    reads: dict[tuple[int, int, int], list[Any]] = field(default_factory=dict[tuple[int, int, int], list[Any]])

    def __post_init__(self) -> None:
        geometry = self.schedule.geometry
        # All ones in every row: no stamp.
        self.plane = np.full(int(geometry.plane_rows or 0) * ROW_BYTES, 0xFF, np.uint8)
        self.states = {
            ratio: np.full((geometry.slot_positions, self.ring_of(ratio), WORDS), -1, np.float32)
            for ratio in OVERLAP
            if ratio in geometry.classes
        }
        self.done = [request.prefix for request in self.schedule.requests]

    # ---- layout ---------------------------------------------------------

    @property
    def ratios(self) -> list[int]:
        """Classes of the pool."""
        return list(self.schedule.geometry.classes)

    def layer(self, ratio: int) -> int:
        """The layer of a class that the run looks at; indices are the same for all of them."""
        layers = self.schedule.geometry.classes[ratio].layers
        return layers[self.schedule.order % len(layers)]

    def view(self, ratio: int) -> TensorValue:
        """The plane from the layer's base row on."""
        base = self.schedule.geometry.layer_base_row(self.layer(ratio))
        count = self.schedule.geometry.layer_view_rows(self.layer(ratio))
        return TensorValue("uint8", self.plane, (count, ROW_BYTES), (ROW_BYTES, 1), base * ROW_BYTES)

    def slot(self, request: int) -> int:
        """Physical slot of a request."""
        return self.schedule.geometry.physical_slot(self.schedule.requests[request].group)

    def ring_of(self, ratio: int) -> int:
        """Positions of a state ring: those of an entry, and one for each draft."""
        return pooled(ratio, OVERLAP[ratio]) + self.schedule.drafts

    # ---- stamps ---------------------------------------------------------

    def window_stamp(self, ratio: int, request: int, pos: int) -> Stamp:
        """What a window row of a request must hold."""
        return Stamp(request, self.layer(ratio), "window", pos, self.window.get((request, pos), -1))

    def entry_stamp(self, ratio: int, request: int, entry: int) -> Stamp:
        """What an entry's row must hold."""
        return Stamp(request, self.layer(ratio), "entry", entry, self.entries.get((ratio, request, entry), -1))

    def stamp_at(self, ratio: int, row: int) -> Stamp | None:
        """What a row of a layer's view holds; None for no stamp, and for a row outside."""
        view = self.view(ratio).array
        return read(view[row]) if 0 <= row < len(view) else None

    def entry_row(self, ratio: int, request: int, entry: int) -> int:
        """Row of an entry, from blocks and groups."""
        geometry = self.schedule.geometry
        per_block = geometry.block_size // ratio
        block = self.schedule.requests[request].blocks[entry // per_block]
        return geometry.compress_row(ratio, block, entry % per_block)

    # ---- restoring ------------------------------------------------------

    def restore(self, request: int) -> None:
        """Put a resumed prefix in place, as copying a checkpoint into the request's slot does."""
        geometry, prefix = self.schedule.geometry, self.schedule.requests[request].prefix
        for pos in range(max(prefix - geometry.ring_slots, 0), prefix):
            self.window[request, pos] = 0
            for ratio in self.ratios:
                row = geometry.window_params(ratio).index(self.slot(request), pos)
                self.view(ratio).array[row] = rows([self.window_stamp(ratio, request, pos)])[0]
        for ratio, state in self.states.items():
            for entry in range(prefix // ratio):
                self.entries[ratio, request, entry] = 0
                stamp = self.entry_stamp(ratio, request, entry)
                self.view(ratio).array[self.entry_row(ratio, request, entry)] = rows([stamp])[0]
            for pos in range(max(prefix - self.ring_of(ratio), 0), prefix):
                state[self.slot(request), pos % self.ring_of(ratio)] = state_words(request, pos, 0)


def state_words(request: int, pos: int, generation: int) -> list[float]:
    """A state row's stamp: whole numbers that fp32 holds."""
    return [request + 1.0, float(pos), float(generation), 0.0]
