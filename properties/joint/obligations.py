"""The joint obligations, by name: what a run of a schedule must show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kvproof.models.deepseek_v4 import ModelConfig
from kvproof.properties.statement import Needs


@dataclass(frozen=True)
class Obligation:
    """One joint obligation.

    Attributes:
        name: "coverage", "content", "order" or "independence".
        words: what holds, in one sentence.
        needs: what a fuzzed run must have seen.
    """

    name: str
    words: str
    needs: Needs

    def needs_of(self, subjects: Iterable[ModelConfig | None]) -> Needs:
        """What a run on these configurations (None: any pool) must have seen: no drafts where none has any."""
        if any(subject is None or subject.draft_tokens for subject in subjects):
            return self.needs
        return Needs(self.needs.cases, {e: n for e, n in self.needs.events.items() if e not in OF_DRAFTS})


OF_DRAFTS = ("verify", "rejected drafts")
"""Events that only a configuration with drafts can show."""

_SEEN = {
    "prefill": 10,
    "decode": 10,
    "verify": 5,
    "rejected drafts": 5,
    "earlier chunk": 5,
    "padded tokens": 5,
    "used slot": 3,
    "several requests": 10,
    "groups": 5,
}

OBLIGATIONS: Mapping[str, Obligation] = {
    item.name: item
    for item in (
        Obligation(
            "coverage",
            "all writers of a forward together write each cell of each live token's slices exactly once, "
            "and nothing else",
            Needs(30, _SEEN),
        ),
        Obligation(
            "content",
            "each read of a token finds exactly its window and the complete groups of its own request, "
            "as last written",
            Needs(30, _SEEN),
        ),
        Obligation(
            "order",
            "each compressed entry pools the positions of its own request, "
            "as they were before this forward's state write",
            Needs(30, {"pooled from the ring": 10, "pooled from input": 10, "rejected drafts": 3}),
        ),
        Obligation(
            "independence",
            "moving blocks, slots and the boundary, reordering and padding the batch, and splitting chunks "
            "change no read",
            Needs(20, {"blocks moved": 5, "batch reordered": 3, "padded tokens": 3, "chunk split": 3}),
        ),
    )
}
