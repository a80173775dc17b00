"""How the windows of one class's layers share rows: runs of ``ring_stride`` positions, interleaved.

A window row must be ``layer * ring_stride + f(q)`` with one ``f`` for all layers, because the compressed
rows fix the distance between layers and an index must not depend on the layer. A window longer than that
distance would run into the next layer, so it is cut into runs of ``ring_stride`` positions, and run ``c``
of every layer comes before run ``c + 1`` of any.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvproof.models.index import IndexValue, as_index, as_index_value, require, within


def ring_offset_for(num_layers: IndexValue, ring_stride: IndexValue, ring_pos: IndexValue) -> IndexValue:
    """Row of ring position ``ring_pos`` relative to its layer's first row: the shared ``f``.

    Args:
        num_layers: layers of the class, at least 1.
        ring_stride: rows between two layers of the class, at least 1.
        ring_pos: ring position, not negative (index value).

    Returns:
        ``(ring_pos div ring_stride) * num_layers * ring_stride + ring_pos mod ring_stride``, in rows.
    """
    num_layers = as_index_value("num_layers", num_layers)
    ring_stride = as_index_value("ring_stride", ring_stride)
    ring_pos = as_index_value("ring_pos", ring_pos)
    require(num_layers >= 1, "num_layers must be at least 1, got {num_layers}", num_layers=num_layers)
    require(ring_stride >= 1, "ring_stride must be at least 1, got {ring_stride}", ring_stride=ring_stride)
    require(ring_pos >= 0, "ring position {ring_pos} must not be negative", ring_pos=ring_pos)
    run, within_run = ring_pos // ring_stride, ring_pos % ring_stride
    return run * (num_layers * ring_stride) + within_run


def entry_rows_for(num_layers: IndexValue, ring_stride: IndexValue, ring_slots: IndexValue) -> IndexValue:
    """Rows that the windows of one class take: one past the last layer's last ring position.

    No placement of the form ``layer * ring_stride + f(q)`` is lower: a layer term that is a multiple of the
    stride leaves a row's residue to ``f``, and each residue needs ``num_layers`` rows per position that has it.

    Args:
        num_layers: layers of the class, at least 1.
        ring_stride: rows between two layers, at least 1.
        ring_slots: ring positions of a window (R), at least 1.
    """
    ring_slots = as_index_value("ring_slots", ring_slots)
    require(ring_slots >= 1, "ring_slots must be at least 1, got {ring_slots}", ring_slots=ring_slots)
    last = ring_offset_for(num_layers, ring_stride, ring_slots - 1)
    return (num_layers - 1) * ring_stride + last + 1


@dataclass(frozen=True)
class WindowParams:
    """The window-row formula of one class as five scalars, which is how a kernel receives it.

    ``index(slot, pos)``, relative to the calling layer's base row::

        q = pos mod ring_slots
        slot * slot_rows + ring_start + (q div ring_stride) * run_rows + q mod ring_stride

    ``slot`` is a physical slot, ``pos`` an absolute token position.

    Attributes:
        ring_start: row of slot 0's first ring position, relative to the layer's base (may be negative).
        slot_rows: rows of a slot (S), at least 1.
        ring_slots: ring positions (R), at least 1.
        ring_stride: positions in a run, at least 1.
        run_rows: rows between two runs of one layer, at least ``ring_stride``.
    """

    ring_start: IndexValue
    slot_rows: IndexValue
    ring_slots: IndexValue
    ring_stride: IndexValue
    run_rows: IndexValue

    def __post_init__(self) -> None:
        as_index("ring_start", self.ring_start)
        for name in ("slot_rows", "ring_slots", "ring_stride"):
            as_index(name, getattr(self, name), at_least=1)
        run_rows = as_index("run_rows", self.run_rows)
        require(
            run_rows >= self.ring_stride,
            "run_rows must be at least ring_stride ({ring_stride}), got {run_rows}",
            run_rows=run_rows,
            ring_stride=self.ring_stride,
        )

    def index(self, slot: IndexValue, pos: IndexValue) -> IndexValue:
        """Row of absolute position ``pos`` in physical slot ``slot``, relative to the layer's base row.

        Raises:
            LayoutError: a negative position or slot. A sentinel must be filtered out before, never wrapped.
        """
        slot, pos = as_index_value("slot", slot), as_index_value("pos", pos)
        require(pos >= 0, "position {pos} must not be negative", pos=pos)
        require(slot >= 0, "slot {slot} must not be negative", slot=slot)
        ring_pos = pos % self.ring_slots
        return slot * self.slot_rows + self.ring_start + self.ring_offset(ring_pos)

    def ring_offset(self, ring_pos: IndexValue) -> IndexValue:
        """Row of a ring position relative to ring position 0 of the same slot and layer."""
        ring_pos = as_index_value("ring_pos", ring_pos)
        require(
            within(ring_pos, 0, self.ring_slots),
            "ring position {ring_pos} outside 0..{stop}",
            ring_pos=ring_pos,
            stop=self.ring_slots,
        )
        return (ring_pos // self.ring_stride) * self.run_rows + ring_pos % self.ring_stride
