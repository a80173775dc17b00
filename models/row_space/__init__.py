"""The unified pool's row space: where every KV row lives, in rows rather than bytes."""

from kvproof.models.errors import AbsentClassError, LayoutError
from kvproof.models.row_space.geometry import ClassLayout, UnifiedPoolGeometry
from kvproof.models.row_space.ratios import (
    ABSENT_RATIO,
    CLASS_NAMES,
    CSA_RATIO,
    DENSE_RATIO,
    ENTRY_ORDER,
    ENVELOPE_ORDER,
    HCA_RATIO,
)
from kvproof.models.row_space.ring import WindowParams, entry_rows_for, ring_offset_for
from kvproof.models.row_space.rows import ClassRows, RowSpace

__all__ = [
    "ABSENT_RATIO",
    "CLASS_NAMES",
    "CSA_RATIO",
    "DENSE_RATIO",
    "ENTRY_ORDER",
    "ENVELOPE_ORDER",
    "HCA_RATIO",
    "AbsentClassError",
    "ClassLayout",
    "ClassRows",
    "LayoutError",
    "RowSpace",
    "UnifiedPoolGeometry",
    "WindowParams",
    "entry_rows_for",
    "ring_offset_for",
]
