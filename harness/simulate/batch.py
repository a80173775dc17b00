"""One forward's batch as arrays: sequences, and their tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from kvproof.harness.simulate.broken import Broken
from kvproof.harness.simulate.stamps import PLACE_SHIFT, Keys
from kvproof.harness.simulate.truth import Truth

Forward = Literal["prefill", "decode"]


def ranges(low: Keys, counts: Keys) -> tuple[Keys, Keys]:
    """(sequence, value) of each of the numbers ``low[i] .. low[i] + counts[i] - 1``, in order."""
    counts = np.maximum(counts, 0)
    sequence = np.repeat(np.arange(len(counts)), counts)
    first = np.cumsum(counts) - counts
    return sequence, np.arange(len(sequence)) + (low - first)[sequence]


def needed_low(batch: Batch, window: int) -> Keys:
    """First position that the first query of each sequence must see."""
    return np.maximum(batch.starts - window + 1, 0)


def require_all(batch: Batch, check: str, low: Keys, needed: Keys) -> None:
    """Refuse reads that begin behind what is needed: a row that is not read is not held to anything either.

    Raises:
        Broken: a sequence reads too few rows.
    """
    short = np.flatnonzero(low > needed)
    if short.size:
        number = int(short[0])
        lacking = int((low - needed)[number])
        raise Broken(check, f"{batch.words(number)} reads {lacking} rows too few")


@dataclass
class Batch:
    """Sequences of one forward, or of one microbatch of it, and their tokens.

    Attributes:
        kind: prefill or decode.
        step: number of the step.
        names: [bs] requests.
        truth_rows: [bs] where the truth has them.
        slots: [bs] physical slots.
        starts: [bs] position of each one's first token.
        new: [bs] tokens.
        kept: [bs] of them, those that stay.
        tables: [bs, columns] blocks; -1 behind the last.
        padding: padded tokens behind the batch.
        sequence, position, place: [T] of each token: its sequence, its position, its number within the sequence.
        stamps: [T] content and place of each token.
    """

    kind: Forward
    step: int
    names: Keys
    truth_rows: Keys
    slots: Keys
    starts: Keys
    new: Keys
    kept: Keys
    tables: Keys
    padding: int
    sequence: Keys
    position: Keys
    place: Keys
    stamps: Keys
    rejected: Keys | None

    @property
    def size(self) -> int:
        """Tokens, padding left out."""
        return len(self.sequence)

    @property
    def ends(self) -> Keys:
        """[bs] positions after each one's last token."""
        return self.starts + self.new

    def expected(self, truth: Truth, sequence: Keys, position: Keys) -> Keys:
        """Content and place at positions of sequences, this forward's drafts counted."""
        stamps = truth.keys[self.truth_rows[sequence], position]
        if self.rejected is None:
            return stamps
        draft = position >= (self.starts + self.kept)[sequence]
        return np.where(draft, self.rejected[sequence] + (position << PLACE_SHIFT), stamps)

    def words(self, sequence: int) -> str:
        """A sequence in words."""
        first, new = int(self.starts[sequence]), int(self.new[sequence])
        span = f"position {first}" if new == 1 else f"positions {first}..{first + new - 1}"
        return f"{self.kind} of request {int(self.names[sequence])}, {span}, step {self.step}"


def make_batch(
    kind: Forward,
    step: int,
    truth: Truth,
    *,
    names: Keys,
    truth_rows: Keys,
    slots: Keys,
    starts: Keys,
    new: Keys,
    kept: Keys,
    tables: Keys,
    padding: int = 0,
) -> Batch:
    """A batch with its tokens laid out one sequence after the other."""
    rejected = truth.rejected(len(names)) if (kept < new).any() else None
    if int(new.max()) == 1:
        sequence, position, place = np.arange(len(names)), starts, np.zeros_like(starts)
    else:
        sequence, position = ranges(starts, new)
        place = position - starts[sequence]
    batch = Batch(
        kind,
        step,
        names,
        truth_rows,
        slots,
        starts,
        new,
        kept,
        tables,
        padding,
        sequence,
        position,
        place,
        starts,
        rejected,
    )
    batch.stamps = batch.expected(truth, sequence, position)
    return batch
