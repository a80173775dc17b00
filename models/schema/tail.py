"""The ring of uncompressed positions: how many places it needs so that no entry ever misses one.

One step decodes positions ``p .. p + k``: the last accepted token and k drafts. It completes the entries whose
last position lies in it, reading older positions from the ring (position s at place ``s mod size``), and then
writes its own positions into the ring. The next step starts behind the accepted ones, at ``p + 1 .. p + k + 1``.
"""

from __future__ import annotations

from kvproof.models.index import Condition, IndexValue, maximum, select


def pooled_positions(ratio: IndexValue, overlap: bool) -> IndexValue:
    """Positions that one entry pools (K): ``ratio``, or twice that where entries overlap."""
    return 2 * ratio if overlap else ratio


def oldest_pooled(last: IndexValue, ratio: IndexValue, overlap: bool) -> IndexValue:
    """First position that the entry completed at position ``last`` pools; positions before 0 do not exist."""
    return maximum(last - pooled_positions(ratio, overlap) + 1, 0)


def ring_holds(size: IndexValue, written: IndexValue, position: IndexValue) -> Condition:
    """Whether a ring of ``size`` places, written up to position ``written``, still holds ``position``."""
    return (position >= 0) & (position <= written) & (position > written - size)


def smallest_tail(ratio: IndexValue, overlap: bool, draft_tokens: IndexValue = 0) -> IndexValue:
    """Places of the smallest ring that never loses a position: ``K - 1 + k`` for K of at least 2.

    An entry pools K positions, the last of which is always in the step that completes it: K - 1 come from
    the ring. A step writes k drafts; if all are rejected they have overwritten k places, so that many more
    are needed. Without drafts, or with overlap, no store of fewer places suffices, ring or not. An entry that
    pools a single position needs no ring.
    """
    pooled = pooled_positions(ratio, overlap)
    return select(pooled >= 2, pooled - 1 + draft_tokens, 0)


def document_tail(ratio: IndexValue) -> IndexValue:
    """The public schema's tail: ``ratio - 1`` places ("pending tokens before flushing compression").

    Enough exactly where entries do not overlap and no draft tokens are served (HCA). With overlap it is
    refuted: entry 1 of a CSA layer is completed at position 7 and pools positions 0 to 7, of which 3 places
    hold 4, 5 and 6. With one draft token it is refuted for HCA too: after positions 126 and 127 (a draft) a
    ring of 127 places has lost position 0, and position 127, decoded again, pools 0 to 127.
    """
    return ratio - 1
