"""Contract of the slot copy."""

from __future__ import annotations

from typing import Any

import numpy as np

from kvproof.kernels.slot_copy.spec import copied
from kvproof.models.contract import Access, Arguments, Clause, Contract, Index, Scalar, Tensor, Tolerance
from kvproof.models.index import Condition, IndexValue, select, within

SPAN = Index("i", stop=lambda a: a.n)
LATER = Index("j", low=lambda _a, i: i + 1, stop=lambda a, _i: a.n)
OTHER = Index("j", stop=lambda a, _i: a.n)


def _live(a: Arguments, i: IndexValue) -> Condition:
    source, target, length = (a.spans[i, column] for column in range(3))
    return copied(source, target, length, a.source_bytes // a.granule, a.target_bytes // a.granule)


BYTE = Index("k", stop=lambda a, i: select(_live(a, i), a.spans[i, 2], 0) * a.granule)


def _apart(start: IndexValue, length: IndexValue, other: IndexValue, other_length: IndexValue) -> Condition:
    return (start + length <= other) | (other + other_length <= start) | (length == 0) | (other_length == 0)


def _targets_apart(a: Arguments, i: IndexValue, j: IndexValue) -> Condition:
    both = _live(a, i) & _live(a, j)
    return (both == False) | _apart(a.spans[i, 1], a.spans[i, 2], a.spans[j, 1], a.spans[j, 2])  # noqa: E712


def _distance(a: Arguments) -> int | None:
    """Bytes from the source's first to the target's first if they are parts of one buffer, else None."""
    source: Any = a.source
    target: Any = a.target
    if not isinstance(source, np.ndarray) or not np.may_share_memory(source, target):
        return None
    return target.__array_interface__["data"][0] - source.__array_interface__["data"][0]


def _not_a_source(a: Arguments, i: IndexValue, j: IndexValue) -> Condition:
    both = _live(a, i) & _live(a, j)
    distance = _distance(a)
    if distance is None:
        return both | (both == False)  # noqa: E712  (true in the index's own kind)
    start = a.spans[i, 1] * a.granule + distance
    apart = _apart(start, a.spans[i, 2] * a.granule, a.spans[j, 0] * a.granule, a.spans[j, 2] * a.granule)
    return (both == False) | apart  # noqa: E712


CONTRACT = Contract(
    name="copy_spans",
    summary="Copies spans of bytes from one buffer to another.",
    arguments=(
        Tensor("source", "uint8", ("source_bytes",), "where spans come from"),
        Tensor("target", "uint8", ("target_bytes",), "where they go; may be the same buffer", role="inout"),
        Tensor("spans", "int64", ("n", 3), "first granule in source, first granule in target, granules"),
        Scalar("granule", "bytes that spans are counted in"),
    ),
    requires=(
        Clause("granule", "1 <= granule < 2**31", lambda a: within(a.granule, 1, 2**31)),
        Clause("targets apart", "no two copied spans share a byte of target", _targets_apart, (SPAN, LATER)),
        Clause(
            "no target a source", "no copied span is written where another is read", _not_a_source, (SPAN, OTHER)
        ),
    ),
    tolerates=(
        Tolerance("stale span", "a span that leaves one of the buffers, or of negative length: not copied"),
    ),
    accesses=(
        Access(
            "target",
            "must",
            (SPAN, BYTE),
            when=lambda _a, _i, _k: True,
            cell=lambda a, i, k: (a.spans[i, 1] * a.granule + k,),
            words="every byte of each span that lies in both buffers",
            value=lambda a, i, k: a.source[a.spans[i, 0] * a.granule + k],
        ),
    ),
    source="checkpoint and page copies of ROCm/ATOM: bytes between a pool's slots and an image",
)
