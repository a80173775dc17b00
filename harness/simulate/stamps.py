"""What a row of the reference memory holds instead of a value: one int64 that says whose row it is.

::

    bit 62      the row's block or slot was given back since
    bits 34-61  content: which token stream (a request's own, a family's shared prefix, or a rejected draft)
    bits 12-33  place: position, or number of a compressed entry
    bits 2-11   tag: layer and field
    bits 0-1    kind

A stream branches off another at one position, so (stream, position) says which tokens lie before: two rows with
equal stamps hold equal values, whoever wrote them.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.int64]

CONTENT_SHIFT, PLACE_SHIFT, TAG_SHIFT = 34, 12, 2
CONTENT_BITS, PLACE_BITS, TAG_BITS = 28, 22, 10
CONTENT_MASK = ((1 << CONTENT_BITS) - 1) << CONTENT_SHIFT
PLACE_MASK = ((1 << PLACE_BITS) - 1) << PLACE_SHIFT
FREED = 1 << 62

FRESH = -1
"""A row that nothing wrote."""
GARBAGE = -2
"""A row of a padded token: no value that anyone may read."""

FAMILIES = 1 << 16
"""Content ids below are shared prefixes; then each request's own tokens; then rejected drafts."""
DRAFTS = 1 << 27


class Kind(IntEnum):
    """What a row is."""

    WINDOW = 1
    ENTRY = 2
    STATE = 3


def own_content(name: int) -> int:
    """Content id of a request's own tokens.

    Raises:
        ValueError: more requests than there are ids.
    """
    content = FAMILIES + name
    if not FAMILIES <= content < DRAFTS:
        raise ValueError(f"request {name}: names go from 0 to {DRAFTS - FAMILIES - 1}")
    return content


def family_content(family: int) -> int:
    """Content id of a shared prefix."""
    if not 0 <= family < FAMILIES - 1:
        raise ValueError(f"family {family}: families go from 0 to {FAMILIES - 2}")
    return 1 + family


def content_words(content: int) -> str:
    """A stream in words."""
    if content < FAMILIES:
        return f"shared prefix {content - 1}"
    return f"request {content - FAMILIES}" if content < DRAFTS else f"rejected draft {content - DRAFTS}"


def words(key: int) -> str:
    """A stamp in words."""
    if key == FRESH:
        return "a row that nothing wrote"
    if key == GARBAGE:
        return "the row of a padded token"
    freed = ", given back since" if key & FREED else ""
    key &= ~FREED
    content = (key & CONTENT_MASK) >> CONTENT_SHIFT
    place = (key & PLACE_MASK) >> PLACE_SHIFT
    kind = key & 3
    tag = (key >> TAG_SHIFT) & ((1 << TAG_BITS) - 1)
    if not kind:
        return f"stamp {key:#x}{freed}"
    what = {Kind.WINDOW: "window position", Kind.ENTRY: "entry", Kind.STATE: "state position"}[Kind(kind)]
    return f"{what} {place} of {content_words(content)}, lane {tag}{freed}"
