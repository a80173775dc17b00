"""The row space of a real model: layers by id, under the names that production code uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from kvproof.models.errors import AbsentClassError, LayoutError
from kvproof.models.index import IndexValue, as_index, as_index_value, require, within
from kvproof.models.row_space.ratios import ABSENT_RATIO, DENSE_RATIO, ENTRY_ORDER
from kvproof.models.row_space.ring import entry_rows_for, ring_offset_for
from kvproof.models.row_space.rows import RowSpace

MAX_LAYERS = 2**16
"""More layers are refused: each is looked at one by one, and no model comes near."""

_KNOWN_RATIOS = frozenset(ENTRY_ORDER) | {ABSENT_RATIO}


@dataclass(frozen=True)
class ClassLayout:
    """One compress class of a model: its layers and its rows in an envelope and in an entry.

    Attributes:
        ratio: compress ratio.
        layers: global layer ids in class order; a layer's place here is all a formula knows of it.
        block_rows: compressed rows of one block in one layer (0 for dense); also the layer stride.
        ring_stride: rows between two layers' windows.
        ring_slots: ring positions of a window.
        envelope_offset: first row of the class in an envelope.
        entry_offset: first row of the class in an entry.
    """

    ratio: int
    layers: tuple[int, ...]
    block_rows: int
    ring_stride: int
    ring_slots: int
    envelope_offset: int
    entry_offset: int

    def __post_init__(self) -> None:
        for name in ("block_rows", "envelope_offset", "entry_offset"):
            as_index(name, getattr(self, name), at_least=0)
        for name in ("ring_stride", "ring_slots"):
            as_index(name, getattr(self, name), at_least=1)

    @property
    def num_layers(self) -> int:
        """Layers of the class."""
        return len(self.layers)

    @property
    def envelope_rows(self) -> int:
        """Rows of the class in one envelope, all layers."""
        return self.num_layers * self.block_rows

    @property
    def entry_rows(self) -> int:
        """Rows of the class's windows in one entry, all layers."""
        return entry_rows_for(self.num_layers, self.ring_stride, self.ring_slots)

    def layer_index(self, layer_id: int) -> int:
        """Place of a layer within its class.

        Raises:
            LayoutError: the layer is not of this class.
        """
        place = self._places.get(layer_id)
        if place is None:
            raise LayoutError(
                f"layer {layer_id!r} is not of ratio {self.ratio}; its layers are {list(self.layers)}"
            )
        return place

    @cached_property
    def _places(self) -> dict[int, int]:
        return {layer: place for place, layer in enumerate(self.layers)}

    def ring_offset(self, ring_pos: IndexValue) -> IndexValue:
        """The part of a window row that all layers of the class share."""
        return ring_offset_for(self.num_layers, self.ring_stride, ring_pos)

    def ring_row(self, layer_index: IndexValue, ring_pos: IndexValue) -> IndexValue:
        """Row of a ring position relative to the class's part of an entry.

        Raises:
            LayoutError: a layer or ring position that the class does not have.
        """
        layer_index, ring_pos = as_index_value("layer_index", layer_index), as_index_value("ring_pos", ring_pos)
        for name, value, stop in (
            ("layer index", layer_index, self.num_layers),
            ("ring position", ring_pos, self.ring_slots),
        ):
            require(within(value, 0, stop), name + " {value} outside 0..{stop}", value=value, stop=stop)
        return layer_index * self.ring_stride + self.ring_offset(ring_pos)


class UnifiedPoolGeometry(RowSpace):
    """The row space of a model's pool, and every address formula that reads from it.

    Args:
        ratios: compress ratio of each layer: 0 dense, 4 CSA, 128 HCA, -1 absent from the row space.
        num_blocks, num_slots: blocks and slots in use, not negative.
        ring_slots: ring positions of a window: sliding window plus draft tokens, at least 1.
        block_size: tokens of a block; a multiple of every compress ratio present.
        plane_rows: rows of the plane; by default what the counts need. An elastic pool must fix it, since
            a group's slot counts down from the plane's last position.
        arena_rows: rows of compressor state at the front of a slot.
        slot_positions: number slots as a plane with so many positions does.
        slot_align_rows: row multiple that a slot is rounded up to.

    Raises:
        LayoutError: an argument out of range, naming it, its value and what is allowed. Beyond what the
            formulas' source refuses: arguments that are not integers, negative counts, a block size that a
            ratio does not divide (its quotient would silently drop tokens, or be a stride of 0), layouts
            without any row, and slots that a layer's view cannot reach.
    """

    def __init__(
        self,
        ratios: Sequence[int],
        num_blocks: IndexValue,
        num_slots: IndexValue,
        ring_slots: int,
        block_size: int,
        plane_rows: IndexValue | None = None,
        arena_rows: int = 0,
        slot_positions: IndexValue | None = None,
        slot_align_rows: int = 2,
    ) -> None:
        given: object = ratios
        if isinstance(given, str) or not hasattr(given, "__len__"):
            raise LayoutError(f"ratios must be a list of compress ratios, got {ratios!r}")
        if len(ratios) == 0:
            raise LayoutError("ratios is empty; a V4 pool needs at least one layer")
        if len(ratios) > MAX_LAYERS:
            raise LayoutError(f"ratios has {len(ratios)} layers; allowed: at most {MAX_LAYERS}")
        self.ratios = [
            ratio if type(ratio) is int else as_index(f"ratios[{layer}]", ratio)
            for layer, ratio in enumerate(ratios)
        ]
        unknown = sorted(set(self.ratios) - _KNOWN_RATIOS)
        if unknown:
            raise LayoutError(
                f"unknown V4 compress ratios {unknown}; allowed: {sorted(_KNOWN_RATIOS)} "
                "(0 dense, 4 CSA, 128 HCA, -1 absent)"
            )
        ring_slots = as_index("ring_slots", ring_slots, at_least=1)
        block_size = as_index("block_size", block_size, at_least=1)
        layers: dict[int, tuple[int, ...]] = {}
        for ratio in ENTRY_ORDER:
            of_ratio = tuple(layer for layer, r in enumerate(self.ratios) if r == ratio)
            if of_ratio:
                layers[ratio] = of_ratio
            if of_ratio and ratio != DENSE_RATIO and block_size % ratio:
                raise LayoutError(
                    f"block_size is {block_size}, not a multiple of ratio {ratio} (layer {of_ratio[0]})"
                )
        self.num_layers = len(self.ratios)
        self.block_size = block_size
        super().__init__(
            counts={ratio: len(ids) for ratio, ids in layers.items()},
            block_rows={ratio: block_size // ratio for ratio in layers if ratio != DENSE_RATIO},
            num_blocks=as_index("num_blocks", num_blocks, at_least=0),
            num_slots=as_index("num_slots", num_slots, at_least=0),
            ring_slots=ring_slots,
            plane_rows=None if plane_rows is None else as_index("plane_rows", plane_rows, at_least=0),
            arena_rows=as_index("arena_rows", arena_rows, at_least=0),
            slot_positions=None
            if slot_positions is None
            else as_index("slot_positions", slot_positions, at_least=0),
            slot_align_rows=as_index("slot_align_rows", slot_align_rows, at_least=1),
        )
        self.classes: dict[int, ClassLayout] = {
            ratio: ClassLayout(
                ratio=ratio,
                layers=layers[ratio],
                block_rows=rows.block_rows,
                ring_stride=rows.ring_stride,
                ring_slots=ring_slots,
                envelope_offset=rows.envelope_offset,
                entry_offset=rows.entry_offset,
            )
            for ratio, rows in self.class_rows.items()
        }

    def with_capacity(
        self,
        num_blocks: IndexValue,
        num_slots: IndexValue,
        plane_rows: IndexValue | None = None,
        slot_positions: IndexValue | None = None,
    ) -> UnifiedPoolGeometry:
        """The same layout at another split.

        A plane that was numbered by ``slot_positions`` keeps that numbering unless another is given; dropping it
        would move every window row of a plane that shares its indices with another.
        """
        return UnifiedPoolGeometry(
            self.ratios,
            num_blocks,
            num_slots,
            self.ring_slots,
            self.block_size,
            plane_rows,
            self.arena_rows,
            slot_positions=self._numbering if slot_positions is None else slot_positions,
            slot_align_rows=self.slot_align_rows,
        )

    # ---- bytes ----------------------------------------------------------

    def plane_bytes(self, row_bytes: int) -> IndexValue:
        """Bytes of the plane at this row width (bytes, at least 1)."""
        return self.plane_rows * as_index("row_bytes", row_bytes, at_least=1)

    def block_bytes(self, row_bytes: int) -> IndexValue:
        """Bytes of one block in a plane of this row width."""
        return self.envelope_rows * as_index("row_bytes", row_bytes, at_least=1)

    def slot_bytes(self, row_bytes: int) -> IndexValue:
        """Bytes of one slot, state and windows, in a plane of this row width."""
        return self.slot_rows * as_index("row_bytes", row_bytes, at_least=1)

    # ---- addresses by layer id ------------------------------------------

    def _ratio_of(self, layer_id: int) -> int:
        layer_id = as_index("layer_id", layer_id, at_least=0, below=self.num_layers)
        ratio = self.ratios[layer_id]
        if ratio == ABSENT_RATIO:
            raise AbsentClassError(
                f"layer {layer_id} is absent from this row space (ratio {ABSENT_RATIO}); its window is a "
                "state field, so it has no class, no base row and no view"
            )
        return ratio

    def layer_class(self, layer_id: int) -> ClassLayout:
        """The class of a layer.

        Raises:
            LayoutError: no such layer.
            AbsentClassError: the layer keeps no KV in this row space.
        """
        return self.classes[self._ratio_of(layer_id)]

    def layer_base_row(self, layer_id: int) -> IndexValue:
        """Row where the layer's view starts."""
        cls = self.layer_class(layer_id)
        return self.rows_of(cls.ratio).base_row(cls.layer_index(layer_id))

    def layer_view_rows(self, layer_id: int) -> IndexValue:
        """Rows of the layer's view, which runs from its base row to the plane's end.

        Raises:
            LayoutError: the plane ends before the layer's base row, so there is no view.
        """
        base = self.layer_base_row(layer_id)
        require(
            self.plane_rows >= base,
            "plane_rows is {plane_rows}, less than the base row {base} of layer " + str(layer_id),
            plane_rows=self.plane_rows,
            base=base,
        )
        return self.plane_rows - base

    def compress_index(self, layer_id: int, block: IndexValue, row: IndexValue) -> IndexValue:
        """Index of a compressed row relative to the layer's base row.

        Args:
            layer_id: a layer with compressed rows.
            block: physical block id, not negative.
            row: row within the block, ``0 <= row < block_size // ratio``.
        """
        ratio = self._ratio_of(layer_id)
        if ratio == DENSE_RATIO:
            raise LayoutError(f"layer {layer_id} is dense and keeps no compressed KV")
        return self.compress_row(ratio, block, row)

    def window_index(self, layer_id: int, slot: IndexValue, ring_pos: IndexValue) -> IndexValue:
        """Index of a window row relative to the layer's base row.

        Args:
            layer_id: a layer of this row space.
            slot: physical slot.
            ring_pos: ring position, ``0 <= ring_pos < ring_slots``.
        """
        return self.window_row(self._ratio_of(layer_id), slot, ring_pos)

    def absolute_row(self, layer_id: int, index: IndexValue) -> IndexValue:
        """Plane row that an index of a layer reaches.

        Raises:
            LayoutError: a negative index (a sentinel is not an address).
        """
        index = as_index_value("index", index)
        require(index >= 0, "index {index} must not be negative", index=index)
        return self.layer_base_row(layer_id) + index
