"""Prefix caching: full blocks by the hash of everything up to their end, and slot checkpoints at their ends.

A block's key is a hash of its parent's key and of its own tokens, so equal keys mean equal prefixes. Compressed
rows alone do not let a request resume: its window and its compressor state lie in a slot. A hit therefore ends at
the last block end that has a checkpoint, which is copied into the new request's slot.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

Key = bytes
ROOT: Key = b""


def chain(parent: Key, tokens: bytes) -> Key:
    """Key of a block: of its parent's key (:data:`ROOT` for the first) and of its tokens."""
    return hashlib.blake2b(parent + tokens, digest_size=16).digest()


@dataclass
class CachedBlock:
    """A full block that later requests may share.

    Attributes:
        block: its id.
        image: checkpoint of a slot as it was at the block's end; None if none was taken.
    """

    block: int
    image: int | None = None


class PrefixCache:
    """Full blocks by key, least recently used first. References and images are the caller's to give back."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Key, CachedBlock] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> CachedBlock | None:
        """The block of a key."""
        return self._entries.get(key)

    def blocks(self) -> list[int]:
        """Every cached block, least recently used first."""
        return [entry.block for entry in self._entries.values()]

    def by_age(self) -> list[Key]:
        """Every key, least recently used first."""
        return list(self._entries)

    def insert(self, key: Key, block: int) -> bool:
        """Remember a full block. Whether it is new: of two equal blocks the first stays."""
        if key in self._entries:
            self._entries.move_to_end(key)
            return False
        self._entries[key] = CachedBlock(block)
        return True

    def attach(self, key: Key, image: int) -> bool:
        """Remember the checkpoint at a block's end. Whether it was wanted: of two equal ones the first stays."""
        entry = self._entries.get(key)
        if entry is None or entry.image is not None:
            return False
        entry.image = image
        return True

    def hit(self, keys: Sequence[Key]) -> list[CachedBlock]:
        """The longest cached run of leading blocks that ends with a checkpoint."""
        found: list[CachedBlock] = []
        usable = 0
        for key in keys:
            entry = self._entries.get(key)
            if entry is None:
                break
            found.append(entry)
            self._entries.move_to_end(key)
            if entry.image is not None:
                usable = len(found)
        return found[:usable]

    def remove(self, key: Key) -> CachedBlock:
        """Forget a key."""
        return self._entries.pop(key)
