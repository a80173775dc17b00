"""A configuration's layout as plain facts: what ``kvproof layout`` prints, as a table or as JSON."""

from __future__ import annotations

from typing import Any

from kvproof.models.deepseek_v4 import ModelConfig, StateLayout
from kvproof.models.index import cdiv, round_up
from kvproof.models.row_space import ABSENT_RATIO, CLASS_NAMES, ClassLayout, UnifiedPoolGeometry

LAYOUT_SCHEMA = "kvproof/layout/1"


def layout_facts(config: ModelConfig) -> dict[str, Any]:
    """Everything about a layout that does not depend on how many blocks and slots a pool has.

    Rows count rows of a plane (all planes share their row numbers); bytes are given for each plane and in total.

    Raises:
        LayoutError: the configuration is no layout.
    """
    geometry = config.geometry(0, 0)
    state = config.state_layout()
    return {
        "schema": LAYOUT_SCHEMA,
        "configuration": _configuration(config),
        "planes": [{"name": plane.name, "row_bytes": plane.row_bytes} for plane in config.planes],
        "classes": [_class(cls, geometry) for cls in geometry.classes.values()],
        "absent_layers": [layer for layer, ratio in enumerate(geometry.ratios) if ratio == ABSENT_RATIO],
        "block": {
            "envelope_rows": geometry.envelope_rows,
            **_bytes(geometry.envelope_rows, config),
        },
        "slot": {
            "arena_rows": state.arena_rows,
            "entry_rows": geometry.entry_rows,
            "slot_align_rows": geometry.slot_align_rows,
            "slot_rows_without_arena": round_up(geometry.entry_rows, geometry.slot_align_rows),
            "slot_rows": geometry.slot_rows,
            **_bytes(geometry.slot_rows, config),
        },
        "state_fields": _fields(state),
        "arena": [
            {
                "plane": plane.name,
                "used_bytes": used,
                "bytes": state.arena_rows * plane.row_bytes,
            }
            for plane, used in zip(state.planes, state.used_bytes, strict=True)
        ],
        "waste_of_a_slot": _waste(config, geometry, state),
    }


def _configuration(config: ModelConfig) -> dict[str, Any]:
    return {
        "name": config.name,
        "kv": config.kv,
        "layers": len(config.ratios),
        "draft": config.draft,
        "draft_layers": config.draft_layers,
        "draft_tokens": config.draft_tokens,
        "sliding_window": config.sliding_window,
        "ring_slots": config.ring_slots,
        "block_size": config.block_size,
        "index_topk": config.index_topk,
        "ratios": list(config.ratios),
    }


def _class(cls: ClassLayout, geometry: UnifiedPoolGeometry) -> dict[str, Any]:
    return {
        "name": CLASS_NAMES[cls.ratio],
        "ratio": cls.ratio,
        "layers": list(cls.layers),
        "block_rows": cls.block_rows,
        "ring_stride": cls.ring_stride,
        "runs": cdiv(cls.ring_slots, cls.ring_stride),
        "envelope_offset": cls.envelope_offset if cls.block_rows else None,
        "envelope_rows": cls.envelope_rows,
        "entry_offset": cls.entry_offset,
        "entry_rows": cls.entry_rows,
        "base_rows": [geometry.layer_base_row(layer) for layer in cls.layers],
        "unreachable_rows": _unreachable(cls),
    }


def _unreachable(cls: ClassLayout) -> int:
    """Rows inside a class's windows that no layer's ring position has: where the last run is not a whole one."""
    return cls.entry_rows - cls.num_layers * cls.ring_slots


def _bytes(rows: int, config: ModelConfig) -> dict[str, Any]:
    planes = {plane.name: rows * plane.row_bytes for plane in config.planes}
    return {"plane_bytes": planes, "bytes": sum(planes.values())}


def _fields(state: StateLayout) -> list[dict[str, Any]]:
    return [
        {
            "name": placed.field.name,
            "shape": list(placed.field.shape),
            "dtype": placed.field.dtype,
            "fill": str(placed.field.fill),
            "plane": state.planes[placed.plane].name,
            "offset": placed.offset,
            "bytes": placed.field.nbytes,
        }
        for placed in state.placed
    ]


def _waste(config: ModelConfig, geometry: UnifiedPoolGeometry, state: StateLayout) -> dict[str, Any]:
    """Rows and bytes of a slot that hold nothing, by cause."""
    row_bytes = sum(plane.row_bytes for plane in config.planes)
    alignment = geometry.slot_rows - state.arena_rows - geometry.entry_rows
    unreachable = sum(_unreachable(cls) for cls in geometry.classes.values())
    arena = state.arena_rows * row_bytes - sum(placed.field.nbytes for placed in state.placed)
    total = (alignment + unreachable) * row_bytes + arena
    return {
        "alignment": {"rows": alignment, "bytes": alignment * row_bytes},
        "unreachable_ring_rows": {"rows": unreachable, "bytes": unreachable * row_bytes},
        "arena_rest": {"bytes": arena},
        "bytes": total,
        "percent": round(100 * total / (geometry.slot_rows * row_bytes), 3),
    }
