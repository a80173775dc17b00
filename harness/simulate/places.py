"""Where the rows of a simulation lie: tables made once from the row space's own formulas.

A *lane* is one layer's (and, for state, one field's) part of a class. In a class an index is the same for all
layers (statement "layer independence" in properties/layouts, proved for every layout), so one lane a class stands
for the others; "all" simulates every layer, field and plane.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kvproof.harness.simulate.stamps import TAG_BITS, TAG_SHIFT, Keys, Kind
from kvproof.kernels.state_update.spec import pooled
from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.models.row_space import CSA_RATIO, DENSE_RATIO, HCA_RATIO, UnifiedPoolGeometry

Layers = Literal["representative", "all"]
OVERLAP: Mapping[int, bool] = {CSA_RATIO: True, HCA_RATIO: False}


@dataclass(frozen=True)
class Lanes:
    """Rows of some lanes that are written and read alike.

    Attributes:
        rows: [lanes, places] row of each place relative to the slot's or block's first plane row.
        tags: [lanes, 1] what a stamp adds to content and place: kind and tag.
        planes: planes that hold them.
        period: places after which rows repeat: the ring, or the rows of a block.
    """

    rows: Keys
    tags: Keys
    planes: tuple[int, ...]
    period: int


@dataclass(frozen=True)
class Settings:
    """What of a layout is simulated.

    Attributes:
        config: the configuration.
        layers: one layer a class, or all of them in every plane.
        ring_slots: window ring instead of the configuration's, for the search for the smallest safe one.
        state_slack: (ratio, positions of its state ring beyond those that an entry pools), where not the drafts.
    """

    config: ModelConfig
    layers: Layers = "representative"
    ring_slots: int | None = None
    state_slack: tuple[tuple[int, int], ...] = ()


class Places:
    """Addresses of a plane of ``plane_rows`` rows.

    Args:
        settings: what is simulated.
        slots: slots that the plane holds beside the blocks.
        blocks: blocks that it holds beside the slots.

    Raises:
        LayoutError: a layout without meaning.
        ValueError: more lanes than stamps can name.
    """

    def __init__(self, settings: Settings, slots: int, blocks: int) -> None:
        config = settings.config
        self.settings, self.config = settings, config
        self.window = config.sliding_window
        self.drafts = config.draft_tokens
        self.ring = settings.ring_slots or config.ring_slots
        state = config.state_layout()

        def geometry(num_blocks: int, num_slots: int, plane_rows: int | None = None) -> UnifiedPoolGeometry:
            return UnifiedPoolGeometry(
                list(config.ratios),
                num_blocks,
                num_slots,
                ring_slots=self.ring,
                block_size=config.block_size,
                plane_rows=plane_rows,
                arena_rows=state.arena_rows,
                slot_align_rows=state.slot_align_rows,
            )

        self.space = geometry(0, 0, geometry(blocks, slots).plane_rows)
        self.plane_rows = int(self.space.plane_rows or 0)
        self.block = config.block_size
        self.envelope, self.slot_rows = int(self.space.envelope_rows), int(self.space.slot_rows)
        self.ratios = tuple(self.space.classes)
        self.num_planes = len(config.planes)
        self._tags = 0
        every = settings.layers == "all"
        planes = tuple(range(self.num_planes)) if every else (0,)
        self.windows = {ratio: self._window_lanes(ratio, every, planes) for ratio in self.ratios}
        self.entries = {
            ratio: self._entry_lanes(ratio, every, planes) for ratio in self.ratios if ratio != DENSE_RATIO
        }
        slack = dict(settings.state_slack)
        self.pooled = {ratio: pooled(ratio, OVERLAP[ratio]) for ratio in self.entries}
        self.state_ring = {ratio: self.pooled[ratio] + slack.get(ratio, self.drafts) for ratio in self.entries}
        self.states = {ratio: self._state_lanes(ratio, every) for ratio in self.entries}
        self.draft = self._draft_lanes(every) if config.draft == "dspark" else None

    def slot_row(self, slot: Keys) -> Keys:
        """First plane row of physical slots."""
        return (slot - self.space.slot_origin) * self.slot_rows

    def _tag(self, kind: Kind, count: int) -> Keys:
        first, self._tags = self._tags, self._tags + count
        if self._tags > 1 << TAG_BITS:
            raise ValueError(f"{self._tags} lanes; stamps can name {1 << TAG_BITS}")
        return ((np.arange(first, self._tags, dtype=np.int64) << TAG_SHIFT) | kind)[:, None]

    def layers_of(self, ratio: int, every: bool) -> tuple[int, ...]:
        """Layers of a class that are simulated."""
        layers = self.space.classes[ratio].layers
        # A layer in the middle: neither the first nor the last row of a run.
        return layers if every else (layers[len(layers) // 2],)

    def _window_lanes(self, ratio: int, every: bool, planes: tuple[int, ...]) -> Lanes:
        layers = self.layers_of(ratio, every)
        index = self.space.window_params(ratio).index(self.space.slot_origin, np.arange(self.ring, dtype=np.int64))
        rows = np.stack([index + self.space.layer_base_row(layer) for layer in layers])
        return Lanes(rows, self._tag(Kind.WINDOW, len(layers)), planes, self.ring)

    def _entry_lanes(self, ratio: int, every: bool, planes: tuple[int, ...]) -> Lanes:
        layers, per_block = self.layers_of(ratio, every), self.block // ratio
        index = self.space.compress_row(ratio, 0, np.arange(per_block, dtype=np.int64))
        rows = np.stack([index + self.space.layer_base_row(layer) for layer in layers])
        return Lanes(rows, self._tag(Kind.ENTRY, len(layers)), planes, per_block)

    def _state_lanes(self, ratio: int, every: bool) -> list[Lanes]:
        """By plane the lanes of a class's state fields; one field of one layer where one stands for all."""
        prefix = "csa" if ratio == CSA_RATIO else "hca"
        wanted = [p for p in self.config.state_layout().placed if p.field.name.startswith(prefix)]
        if not every:
            wanted = [p for p in wanted if p.field.name == f"{prefix}_main_kv"]
        found: list[Lanes] = []
        for plane in range(self.num_planes):
            rows = [self._field_rows(p, every, self.state_ring[ratio]) for p in wanted if p.plane == plane]
            if rows:
                stacked = np.concatenate(rows)
                tags = self._tag(Kind.STATE, len(stacked))
                found.append(Lanes(stacked, tags, (plane,), self.state_ring[ratio]))
        return found

    def _draft_lanes(self, every: bool) -> Lanes:
        (placed,) = [p for p in self.config.state_layout().placed if p.field.name == "draft_window"]
        rows = self._field_rows(placed, every, self.ring)
        return Lanes(rows, self._tag(Kind.STATE, len(rows)), (placed.plane,), self.ring)

    def _field_rows(self, placed: object, every: bool, ring: int) -> Keys:
        """Row of each ring position of a field: the first that starts in it.

        A position takes a row or more, so positions of all fields of a plane have rows of their own.
        """
        field, offset = placed.field, placed.offset  # type: ignore[attr-defined]
        layers, positions, width = field.shape
        size = field.nbytes // (layers * positions)
        row_bytes = self.config.planes[placed.plane].row_bytes  # type: ignore[attr-defined]
        chosen = range(layers) if every else [layers // 2]
        # A ring that is searched for may be shorter than the field's, never longer.
        if ring > positions:
            raise ValueError(f"a state ring of {ring} positions; field {field.name} has {positions} x {width}")
        at = offset + (np.array(chosen)[:, None] * positions + np.arange(ring)) * size
        return -(-at // row_bytes)
