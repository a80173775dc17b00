"""What a plane row is, in words: read back from the row space, for reports."""

from __future__ import annotations

from kvproof.models.row_space import CLASS_NAMES, ClassRows, RowSpace


def place_of(space: RowSpace, row: int) -> str:
    """What lies at a plane row.

    Args:
        space: a concrete row space.
        row: plane row; may lie outside the plane.
    """
    if not 0 <= row < _plane_rows(space):
        return "outside the plane"
    position, in_slot = divmod(row, space.slot_rows)
    if position >= space.held_slots:
        return "rest above the topmost slot"
    if position >= space.held_slots - space.num_slots:
        return f"{_in_slot(space, in_slot)}, slot {position + space.slot_origin}"
    if space.envelope_rows and row < space.num_blocks * space.envelope_rows:
        block, in_envelope = divmod(row, space.envelope_rows)
        return f"{_in_envelope(space, in_envelope)}, block {block}"
    return "gap between blocks and slots"


def _plane_rows(space: RowSpace) -> int:
    rows = space.plane_rows
    return rows if isinstance(rows, int) else 0


def _in_slot(space: RowSpace, row: int) -> str:
    if row < space.arena_rows:
        return f"row {row} of the arena"
    row -= space.arena_rows
    for rows in space.class_rows.values():
        if rows.entry_offset <= row < rows.entry_offset + rows.entry_rows:
            return _window(rows, row - rows.entry_offset)
    return "alignment rows"


def _window(rows: ClassRows, row: int) -> str:
    run, in_run = divmod(row, rows.num_layers * rows.ring_stride)
    layer, in_stride = divmod(in_run, rows.ring_stride)
    ring_pos = run * rows.ring_stride + in_stride
    name = CLASS_NAMES[rows.ratio]
    if ring_pos >= rows.ring_slots:
        return f"unused row of the {name} windows"
    return f"ring position {ring_pos} of {name} layer {layer}"


def _in_envelope(space: RowSpace, row: int) -> str:
    for rows in space.class_rows.values():
        if rows.block_rows and rows.envelope_offset <= row < rows.envelope_offset + rows.envelope_rows:
            layer, in_block = divmod(row - rows.envelope_offset, rows.block_rows)
            return f"compressed row {in_block} of {CLASS_NAMES[rows.ratio]} layer {layer}"
    return "unused row of an envelope"
