"""What each request's rows must hold: the simulation's own account of all tokens, apart from any bookkeeping."""

from __future__ import annotations

import numpy as np

from kvproof.harness.simulate.stamps import (
    CONTENT_MASK,
    CONTENT_SHIFT,
    DRAFTS,
    PLACE_SHIFT,
    Keys,
    family_content,
    own_content,
)


class Truth:
    """Content and place of every position of every live request.

    Args:
        requests: requests that may be live at once.
        positions: positions that a request may have, rejected drafts included.

    Attributes:
        keys: [requests, positions] content and place, without kind and tag.
    """

    def __init__(self, requests: int, positions: int) -> None:
        self.positions = positions
        self._places = np.arange(positions, dtype=np.int64) << PLACE_SHIFT
        self.keys: Keys = np.zeros((requests, positions), np.int64)
        self._free = list(range(requests))[::-1]
        self._drafts = DRAFTS

    @property
    def live(self) -> int:
        """Requests at present."""
        return len(self.keys) - len(self._free)

    def begin(self, name: int, family: int, shared: int) -> int:
        """A request of ``shared`` tokens of a family's prefix and its own ones behind. Returns its row."""
        row = self._free.pop()
        self.keys[row, :shared] = self._places[:shared] + (family_content(family) << CONTENT_SHIFT)
        self.keys[row, shared:] = self._places[shared:] + (own_content(name) << CONTENT_SHIFT)
        return row

    def fork(self, parent: int, name: int, known: int) -> int:
        """A request that shares another's first ``known`` tokens."""
        row = self._free.pop()
        self.keys[row, :known] = self.keys[parent, :known]
        self.keys[row, known:] = self._places[known:] + (own_content(name) << CONTENT_SHIFT)
        return row

    def end(self, row: int) -> None:
        """Forget a request."""
        self._free.append(row)

    def rejected(self, sequences: int) -> Keys:
        """Fresh contents for rejected drafts, one a sequence, shifted as in a stamp."""
        first, self._drafts = self._drafts, self._drafts + sequences
        if self._drafts >= 2 * DRAFTS:
            raise ValueError("more rejected drafts than stamps can name; use shorter episodes")
        return np.arange(first, self._drafts, dtype=np.int64) << CONTENT_SHIFT

    def tokens(self, row: int, start: int, stop: int) -> bytes:
        """Tokens ``start..stop-1`` of a request, as the prefix cache hashes them.

        Their positions are left out, as tokens have none: the blocks of one stream are equal, and only what lies
        before tells them apart.
        """
        return (self.keys[row, start:stop] & CONTENT_MASK).tobytes()
