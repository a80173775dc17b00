"""Which spans are copied, and the spans of a slot, on ints and arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kvproof.models.errors import LayoutError
from kvproof.models.index import Condition, IndexValue, as_index
from kvproof.models.row_space import UnifiedPoolGeometry


def fits(start: IndexValue, length: IndexValue, total: IndexValue) -> Condition:
    """Whether a span lies in a buffer of ``total`` granules. No sum of two stale numbers is formed."""
    return (start >= 0) & (length >= 0) & (length <= total) & (start <= total - length)


def copied(
    source: IndexValue, target: IndexValue, length: IndexValue, source_total: IndexValue, target_total: IndexValue
) -> Condition:
    """Whether a span is copied: both of its ends lie in their buffers."""
    return fits(source, length, source_total) & fits(target, length, target_total)


def slot_spans(
    geometry: UnifiedPoolGeometry,
    row_bytes: int,
    slots: npt.ArrayLike,
    images: npt.ArrayLike,
    *,
    restore: bool = False,
    granule: int = 16,
) -> npt.NDArray[np.int64]:
    """The spans that copy whole slots of one plane to images of a checkpoint buffer, or back.

    Image i starts at byte ``i * geometry.slot_bytes(row_bytes)`` of the buffer.

    Args:
        geometry: the plane's row space.
        row_bytes: bytes of a row in this plane.
        slots: [n] physical slots.
        images: [n] image of each.
        restore: copy images to slots.
        granule: bytes that spans are counted in; divides a slot's bytes.

    Returns:
        [n, 3] int64 (source, target, length), in granules.

    Raises:
        LayoutError: a slot that the plane has not, a negative image, or a granule that does not divide a slot.
    """
    granule = as_index("granule", granule, at_least=1)
    slot, image = np.asarray(slots, np.int64), np.asarray(images, np.int64)
    if slot.shape != image.shape or slot.ndim != 1:
        raise LayoutError(f"slots {slot.shape} and images {image.shape} must have one shape [n]")
    if image.size and image.min() < 0:
        raise LayoutError(f"images must not be negative, got {image.min()}")
    size = geometry.slot_bytes(row_bytes)
    if size % granule:
        raise LayoutError(f"granule {granule} does not divide the {size} bytes of a slot")
    start, _ = geometry.slot_span(slot)
    plane, buffer = start * row_bytes // granule, image * (size // granule)
    ends = (buffer, plane) if restore else (plane, buffer)
    return np.stack([*ends, np.full(slot.shape, size // granule)], axis=1).astype(np.int64)
